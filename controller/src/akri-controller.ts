#!/usr/bin/env node
import { AkriError, messageOf } from '@akrijs/sdk'
import { createLogger } from '@akrijs/sdk/host'
import { Command, CommanderError } from 'commander'
import { type ControllerProgramOptions, controllerOptions } from './program/controller-options.js'
import { runController } from './program/run-controller.js'

const program = new Command('akri-controller')
  .description('The Akri controller of a Kubernetes: starts what uses the devices, and tidies up after nodes that are gone.')
  .version('0.1.0')
  .showHelpAfterError('(akri-controller --help says more)')
  .exitOverride()
for (const option of controllerOptions()) program.addOption(option)

try {
  program.parse()
  const options = program.opts<ControllerProgramOptions>()
  const stop = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort())
  await runController(options, { log: createLogger('akri-controller', options.logLevel), signal: stop.signal })
} catch (error) {
  if (error instanceof CommanderError) process.exit(error.exitCode === 0 ? 0 : 2)
  process.stderr.write(`akri-controller: ${messageOf(error)}\n`)
  if (!AkriError.is(error) && error instanceof Error) process.stderr.write(`${error.stack}\n`)
  process.exit(1)
}
