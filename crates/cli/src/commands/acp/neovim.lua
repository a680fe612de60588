-- Agents with a memory, for CodeCompanion and avante.
-- Written by `rethread acp --install neovim`, which writes it anew; `rethread acp --uninstall neovim` removes it.
--
--   require("codecompanion").setup({ adapters = { acp = require("rethread").codecompanion } })
--   require("avante").setup({ acp_providers = require("rethread").avante })

-- The name of each agent, and the command that starts it.
local agents = {
  --{agents}
}

local M = { codecompanion = {}, avante = {} }

-- Avante gives an agent no environment but what is named here, and the PATH.
local environment = vim.fn.environ()
environment.PATH = nil

for name, command in pairs(agents) do
  M.codecompanion[name] = function()
    -- This adapter leaves it to the agent whether its user is logged in.
    return require("codecompanion.adapters").extend("opencode", {
      name = name,
      formatted_name = name,
      commands = { default = command },
    })
  end
  M.avante[name] = {
    command = command[1],
    args = vim.list_slice(command, 2),
    env = environment,
  }
end

return M
