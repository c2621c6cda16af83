#!/usr/bin/env node
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { AkriError, messageOf } from '@akrijs/sdk'
import { createLogger } from '@akrijs/sdk/host'
import { Command, CommanderError } from 'commander'
import { type AgentProgramOptions, agentOptions } from './program/agent-options.js'
import { runAgent } from './program/run-agent.js'

const program = new Command('akri-agent')
  .description('The Akri agent of one node of a Kubernetes: finds its devices and gives them to Pods.')
  .version('0.1.0')
  .showHelpAfterError('(akri-agent --help says more)')
  .exitOverride()
for (const option of agentOptions()) program.addOption(option)

try {
  program.parse()
  const options = program.opts<AgentProgramOptions>()
  const stop = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort())
  await runAgent(options, {
    // Handlers are looked for as this program's own packages are.
    packagesFrom: path.dirname(fileURLToPath(import.meta.url)),
    log: createLogger('akri-agent', options.logLevel),
    signal: stop.signal,
  })
  // What a handler may have left running must not keep the program.
  process.exit(0)
} catch (error) {
  if (error instanceof CommanderError) process.exit(error.exitCode === 0 ? 0 : 2)
  process.stderr.write(`akri-agent: ${messageOf(error)}\n`)
  if (!AkriError.is(error) && error instanceof Error) process.stderr.write(`${error.stack}\n`)
  process.exit(1)
}
