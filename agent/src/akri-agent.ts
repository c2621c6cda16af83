#!/usr/bin/env node
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { startProgram } from '@akrijs/runtime/program'
import { agentOptions } from './program/agent-options.js'
import { runAgent } from './program/run-agent.js'

// Handlers are looked for as this program's own packages are.
const packagesFrom = path.dirname(fileURLToPath(import.meta.url))

await startProgram({
  name: 'akri-agent',
  description:
    'The Akri agent of one node of a Kubernetes: finds its devices and gives them to Pods.',
  version: '0.1.0',
  loopWatch: new URL('./loop-watch.js', import.meta.url),
  options: agentOptions,
  run: (options, context) => runAgent(options, { packagesFrom, ...context }),
})
