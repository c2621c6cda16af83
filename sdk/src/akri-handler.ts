#!/usr/bin/env node
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { messageOf } from '@akrijs/runtime'
import { type DiscoveryHandler, isDiscoveryHandler } from '@akrijs/runtime/handler'
import { createLogger, logLevelOption, wholeNumber } from '@akrijs/runtime/program'
import { Command, Option } from 'commander'
import { endWithStdin } from './end-with-stdin.js'
import { serve } from './serve.js'

interface Options {
  readonly directory?: string
  readonly podIp?: string
  readonly port: number
  readonly metricsPort?: number
  readonly logLevel: string
  readonly untilStdinEnds: boolean
}

const port = wholeNumber(0, 65_535)

const program = new Command('akri-handler')
  .description(
    'Serves the discovery handler that each module exports as its default to the Akri agent.',
  )
  .argument('<module...>', 'paths of modules, or names of npm packages')
  .addOption(
    new Option(
      '--directory <path>',
      "where the agent's agent-registration.sock is and the sockets of handlers go",
    ).env('DISCOVERY_HANDLERS_DIRECTORY'),
  )
  .addOption(
    new Option('--pod-ip <address>', 'serve on this address instead of a unix socket').env(
      'POD_IP',
    ),
  )
  .addOption(
    new Option('--port <port>', 'port on that address; each further handler takes the next one')
      .default(10_000)
      .argParser(port),
  )
  .addOption(
    new Option('--metrics-port <port>', 'serve /healthz, /readyz and /metrics there')
      .env('METRICS_PORT')
      .argParser(port),
  )
  .addOption(logLevelOption())
  .option(
    '--until-stdin-ends',
    'end when the standard input does, so as not to outlive whoever holds that pipe open',
    false,
  )
  .action(async (modules: string[], options: Options) => {
    if (options.untilStdinEnds) endWithStdin()
    const handlers = await Promise.all(modules.map(load))
    const stop = new AbortController()
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => stop.abort())
    const log = createLogger('akri-handler', { level: options.logLevel })
    const server = await serve(handlers, { ...options, log, signal: stop.signal })
    await server.closed
  })

async function load(specifier: string): Promise<DiscoveryHandler> {
  const module: unknown = await import(urlOf(specifier))
  const handler =
    typeof module === 'object' && module !== null && 'default' in module
      ? module.default
      : undefined
  if (isDiscoveryHandler(handler)) return handler
  return program.error(
    `akri-handler: ${specifier} does not export a handler as its default; export what defineDiscoveryHandler gives`,
  )
}

function urlOf(specifier: string): string {
  const file = path.resolve(specifier)
  if (existsSync(file)) return pathToFileURL(file).href
  try {
    return pathToFileURL(createRequire(path.resolve('x.js')).resolve(specifier)).href
  } catch (error) {
    // A package that exports to `import` only. It can be resolved from here alone, which is where it is installed too.
    if (error instanceof Error && 'code' in error && error.code === 'ERR_PACKAGE_PATH_NOT_EXPORTED')
      return import.meta.resolve(specifier)
    throw error
  }
}

try {
  await program.parseAsync()
  // A handler that left something running behind must not keep the process.
  process.exit(0)
} catch (error) {
  // Node adds the stack of requires in further lines.
  process.stderr.write(`akri-handler: ${messageOf(error).split('\n')[0]}\n`)
  process.exit(1)
}
