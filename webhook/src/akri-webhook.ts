#!/usr/bin/env node
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { startProgram } from '@akrijs/runtime/program'
import { runWebhook } from './program/run-webhook.js'
import { webhookOptions } from './program/webhook-options.js'

// Handlers are resolved from here, like the packages of this program.
const packagesFrom = path.dirname(fileURLToPath(import.meta.url))

await startProgram({
  name: 'akri-webhook',
  description: 'Refuses Configurations that make no sense, and says why.',
  version: '0.1.0',
  options: webhookOptions,
  run: (options, context) => runWebhook(options, { packagesFrom, ...context }),
})
