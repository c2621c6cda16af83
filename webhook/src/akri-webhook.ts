#!/usr/bin/env node
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { AkriError, messageOf } from '@akrijs/sdk'
import { createLogger } from '@akrijs/sdk/host'
import { Command, CommanderError } from 'commander'
import { runWebhook } from './program/run-webhook.js'
import { type WebhookProgramOptions, webhookOptions } from './program/webhook-options.js'

const program = new Command('akri-webhook')
  .description('Refuses Configurations that make no sense, and says why.')
  .version('0.1.0')
  .showHelpAfterError('(akri-webhook --help says more)')
  .exitOverride()
for (const option of webhookOptions()) program.addOption(option)

try {
  program.parse()
  const options = program.opts<WebhookProgramOptions>()
  const stop = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort())
  await runWebhook(options, {
    // Handlers are looked for as this program's own packages are.
    packagesFrom: path.dirname(fileURLToPath(import.meta.url)),
    log: createLogger('akri-webhook', options.logLevel),
    signal: stop.signal,
  })
  // What a handler may have left running must not keep the program.
  process.exit(0)
} catch (error) {
  if (error instanceof CommanderError) process.exit(error.exitCode === 0 ? 0 : 2)
  process.stderr.write(`akri-webhook: ${messageOf(error)}\n`)
  if (!AkriError.is(error) && error instanceof Error) process.stderr.write(`${error.stack}\n`)
  process.exit(1)
}
