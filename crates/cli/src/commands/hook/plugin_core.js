// Hands what is said in this agent over to Rethread while it is said. Written by `rethread hook install`, and taken away by
// `rethread hook uninstall`. Nothing in here can fail the agent: where Rethread does not answer, the agent goes on without it.
import { spawn } from "node:child_process"

const COMMAND = "{command}"
const PATIENCE_MS = 1500
const TOGETHER_MS = 50

class Recorder {
  constructor() {
    this.child = undefined
    this.asked = []
    this.pieces = new Map()
    this.timer = undefined
    this.rest = ""
  }

  start() {
    if (this.child) return this.child
    const child = spawn(COMMAND[0], COMMAND.slice(1), { stdio: ["pipe", "pipe", "ignore"] })
    const gone = () => {
      if (this.child === child) this.child = undefined
      for (const answer of this.asked.splice(0)) answer(undefined)
    }
    child.on("error", gone)
    child.on("exit", gone)
    child.stdin.on("error", gone)
    child.stdout.setEncoding("utf8")
    child.stdout.on("data", (text) => this.hear(text))
    // Nobody waits for it when the agent ends: it reads what is left and ends by itself.
    for (const one of [child, child.stdin, child.stdout]) one.unref?.()
    this.child = child
    return child
  }

  hear(text) {
    const lines = (this.rest + text).split("\n")
    this.rest = lines.pop()
    for (const line of lines) {
      let context
      try {
        context = JSON.parse(line).context
      } catch {}
      this.asked.shift()?.(context)
    }
  }

  write(line) {
    try {
      this.start().stdin.write(JSON.stringify(line) + "\n")
    } catch {}
  }

  tell(event, line) {
    this.flush()
    this.write({ event, ...line })
  }

  // What the model is to be told before the prompt, if there is anything.
  ask(line) {
    return new Promise((resolve) => {
      // The agent waits for this, and must not end meanwhile.
      const timer = setTimeout(() => resolve(undefined), PATIENCE_MS)
      this.asked.push((context) => {
        clearTimeout(timer)
        resolve(context)
      })
      this.tell("prompt", line)
    })
  }

  // What the model says, put together for a moment.
  say(session_id, kind, text) {
    if (!text) return
    const last = this.pieces.get(session_id) ?? []
    const open = last.at(-1)
    if (open?.kind === kind) open.text += text
    else last.push({ kind, text })
    this.pieces.set(session_id, last)
    this.timer ??= setTimeout(() => this.flush(), TOGETHER_MS)
    this.timer.unref?.()
  }

  flush() {
    clearTimeout(this.timer)
    this.timer = undefined
    for (const [session_id, pieces] of this.pieces)
      for (const { kind, text } of pieces) this.write({ event: "said", session_id, [kind]: text })
    this.pieces.clear()
  }
}

