import { commanderOptions } from '@akrijs/runtime/program'
import { Command } from 'commander'
import { type AgentProgramOptions, agentOptions } from '../program/agent-options.js'

/** The options of the program on `node-a`, from its arguments. @throws CommanderError */
export function programOptions(...args: readonly string[]): AgentProgramOptions {
  const program = new Command().exitOverride().configureOutput({ writeErr: () => {} })
  for (const option of commanderOptions(agentOptions)) program.addOption(option)
  return program.parse(['--node', 'node-a', ...args], { from: 'user' }).opts<AgentProgramOptions>()
}
