#!/usr/bin/env node
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { aborted, isRecord, messageOf } from '@akrijs/runtime'
import {
  type DiscoveryHandler,
  HandlerPackageError,
  isDiscoveryHandler,
} from '@akrijs/runtime/handler'
import { type OptionSpec, startProgram } from '@akrijs/runtime/program'
import { akriHandlerOptions } from './akri-handler-options.js'
import { endWithStdin } from './end-with-stdin.js'
import { servingOptions } from './serve.js'
import { startServing } from './serving.js'

/** For programs that start akri-handler, not for people: the docs leave the option out. */
const untilStdinEnds: OptionSpec<boolean> = {
  argument: '',
  meaning: 'end with the standard input: when the program at the other end of the pipe ends',
  default: false,
}

await startProgram({
  name: 'akri-handler',
  description:
    'Serves the discovery handler that each module exports as its default to the Akri agent.',
  version: '0.1.0',
  options: { ...akriHandlerOptions, untilStdinEnds },
  arguments: { '<module...>': 'paths or npm packages of handlers' },
  async run(options, context) {
    if (options.untilStdinEnds) endWithStdin()
    const handlers = await context.mayBlock(() => Promise.all(context.args.map(load)))
    await startServing(handlers, servingOptions(handlers, options), context)
    await aborted(context.signal)
  },
})

/** @param specifier the path of a module, or the name of an npm package */
async function load(specifier: string): Promise<DiscoveryHandler> {
  let module: unknown
  try {
    module = await import(urlOf(specifier))
  } catch (error) {
    // Node adds the stack of requires in further lines.
    const [reason = ''] = messageOf(error).split('\n')
    throw new HandlerPackageError(`${specifier} cannot be loaded: ${reason}`, { cause: error })
  }
  const handler = isRecord(module) ? module.default : undefined
  if (isDiscoveryHandler(handler)) return handler
  throw new HandlerPackageError(
    `${specifier} does not export a handler as its default; export the result of ` +
      'defineDiscoveryHandler',
  )
}

function urlOf(specifier: string): string {
  const file = path.resolve(specifier)
  if (existsSync(file)) return pathToFileURL(file).href
  try {
    return pathToFileURL(createRequire(path.resolve('x.js')).resolve(specifier)).href
  } catch (error) {
    // The package exports to `import` only. `import.meta.resolve` resolves it from here, where it
    // is installed too.
    if (error instanceof Error && 'code' in error && error.code === 'ERR_PACKAGE_PATH_NOT_EXPORTED')
      return import.meta.resolve(specifier)
    throw error
  }
}
