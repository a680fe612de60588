;;; rethread.el --- Agents with a memory, for agent-shell  -*- lexical-binding: t; -*-

;;; Commentary:

;; Written by `rethread acp --install emacs', which writes it anew;
;; `rethread acp --uninstall emacs' removes it.

;;; Code:

(require 'seq)

(defvar agent-shell-agent-configs)
(declare-function acp-make-client "acp")
(declare-function agent-shell-make-agent-config "agent-shell")

(defconst rethread-agents
  '(agents)
  "Each agent: its identifier, its name, and the command that starts it.")

(defun rethread-agent-config (agent)
  "Return the configuration of AGENT as `agent-shell' takes it."
  (let ((name (cadr agent))
        (command (cddr agent)))
    (agent-shell-make-agent-config
     :identifier (intern (car agent))
     :mode-line-name name
     :buffer-name name
     :shell-prompt (concat name "> ")
     :shell-prompt-regexp (concat (regexp-quote name) "> ")
     :client-maker (lambda (buffer)
                     (acp-make-client :command (car command)
                                      :command-params (cdr command)
                                      :context-buffer buffer)))))

(defun rethread--own-p (config)
  "Return non-nil if CONFIG is of one of `rethread-agents'."
  (and (consp config)
       (assoc (symbol-name (alist-get :identifier config)) rethread-agents)))

(defun rethread--with-own (configs)
  "Return CONFIGS with those of `rethread-agents' after them, once."
  (append (seq-remove #'rethread--own-p configs)
          (mapcar #'rethread-agent-config rethread-agents)))

(with-eval-after-load 'agent-shell
  (setq agent-shell-agent-configs
        (let ((configs agent-shell-agent-configs))
          (if (functionp configs)
              (lambda () (rethread--with-own (funcall configs)))
            (rethread--with-own configs)))))

(provide 'rethread)

;;; rethread.el ends here
