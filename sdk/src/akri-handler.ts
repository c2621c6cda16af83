#!/usr/bin/env node
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { messageOf } from '@akrijs/runtime'
import { type DiscoveryHandler, isDiscoveryHandler } from '@akrijs/runtime/handler'
import { commanderOptions, createLogger } from '@akrijs/runtime/program'
import { Command } from 'commander'
import { akriHandlerOptions } from './akri-handler-options.js'
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

const program = new Command('akri-handler')
  .description(
    'Serves the discovery handler that each module exports as its default to the Akri agent.',
  )
  .argument('<module...>', 'paths of modules, or names of npm packages')
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

for (const option of commanderOptions(akriHandlerOptions)) program.addOption(option)

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
