import { statSync, writeSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { aborted, codeOf, messageOf } from '@akrijs/runtime'
import { type OptionSpec, startProgram } from '@akrijs/runtime/program'
import { akriHandlerOptions } from './akri-handler-options.js'
import { endWithStdin } from './end-with-stdin.js'
import { HandlerPackageError } from './handler/errors.js'
import type { DiscoveryHandler } from './handler/handler.js'
import { importHandler } from './handler/handler-module.js'
import { findHandlerPackage, packageModule } from './handler/handler-package.js'
import { servingOptions } from './serve.js'
import { startServing } from './serving.js'

/** For programs that start akri-handler, not for people: the docs leave the options out. */
const untilStdinEnds: OptionSpec<boolean> = {
  argument: '',
  meaning: 'end with the standard input: when the program at the other end of the pipe ends',
  default: false,
}
const printNames: OptionSpec<boolean> = {
  argument: '',
  meaning: 'print the names of the handlers as JSON, and end',
  default: false,
}

await startProgram({
  name: 'akri-handler',
  description:
    'Serves the discovery handler that each module exports as its default to the Akri agent.',
  version: '0.1.0',
  options: { ...akriHandlerOptions, untilStdinEnds, printNames },
  arguments: { '<module...>': 'paths of modules or packages, or npm packages' },
  async run(options, context) {
    if (options.untilStdinEnds) endWithStdin()
    const handlers = await context.mayBlock(() => loadAll(context.args))
    if (options.printNames) {
      // Not by process.stdout, which goes to the log.
      writeSync(1, JSON.stringify(handlers.map(({ name }) => name)))
      return
    }
    await startServing(handlers, servingOptions(handlers, options), context)
    await aborted(context.signal)
  },
})

async function loadAll(specifiers: readonly string[]): Promise<DiscoveryHandler[]> {
  const handlers: DiscoveryHandler[] = []
  for (const specifier of specifiers) handlers.push(await load(specifier))
  return handlers
}

/** @param specifier the path of a module or of a package, or the name of an npm package */
async function load(specifier: string): Promise<DiscoveryHandler> {
  const found = statSync(specifier, { throwIfNoEntry: false })
  if (found?.isFile()) return importHandler(pathToFileURL(specifier).href, specifier)
  // Of a directory and a package with the same name, the package counts.
  const isPackagePath = found?.isDirectory() && /^(\/|\.{1,2}(\/|$))/.test(specifier)
  if (isPackagePath) return (await findHandlerPackage(specifier, process.cwd())).load()
  return importHandler(await urlOf(specifier), specifier)
}

async function urlOf(specifier: string): Promise<string> {
  try {
    return pathToFileURL(createRequire(path.resolve('x.js')).resolve(specifier)).href
  } catch (error) {
    // The package exports to `import` only. Not by `import.meta.resolve` alone: a program that is
    // installed globally is outside of the project.
    if (codeOf(error) === 'ERR_PACKAGE_PATH_NOT_EXPORTED') {
      const module = await packageModule(specifier, process.cwd())
      return module === undefined ? import.meta.resolve(specifier) : pathToFileURL(module).href
    }
    // Node.js adds the stack of requires in further lines.
    const [reason = ''] = messageOf(error).split('\n')
    throw new HandlerPackageError(`${specifier} cannot be loaded: ${reason}`, { cause: error })
  }
}
