import path from 'node:path'
import { InvalidOptionError, nearest } from '@akrijs/runtime'
import {
  findHandlerPackage,
  type HandlerPackage,
  packageDirectory,
  type ReadHandlerName,
} from '@akrijs/sdk/handler'
import { handlerSpecifier } from '@akrijs/sdk/handler-options'
import { BUILT_IN_HANDLERS, HANDLERS_FROM } from './built-in-handlers.js'

/**
 * Where a handler comes from that a person names: the package of a built-in handler, a package that
 * is installed beside this program, or else the directory of one of the working directory. npx and
 * global installations keep this program in a directory of its own.
 *
 * @param specifier a built-in handler, the name of a package, or a path
 * @param workingDirectory @default that of this process
 */
export function handlerSource(specifier: string, workingDirectory = process.cwd()): string {
  const builtIn = Object.hasOwn(BUILT_IN_HANDLERS, specifier) && BUILT_IN_HANDLERS[specifier]
  if (builtIn) return builtIn
  if (packageDirectory(specifier, HANDLERS_FROM) !== undefined) return specifier
  return packageDirectory(specifier, workingDirectory) ?? specifier
}

/**
 * Finds a handler by the name of a built-in handler, the name of a package, or a path.
 * @param from the directory of this program
 * @param readName as of findHandlerPackage
 * @throws InvalidOptionError if the name is a misspelt name of a built-in handler, or starts one
 */
export async function findHandler(
  handler: string,
  from: string,
  readName?: ReadHandlerName,
): Promise<HandlerPackage> {
  const specifier = handlerSource(handlerSpecifier(handler))
  const isBuiltIn = Object.hasOwn(BUILT_IN_HANDLERS, handler)
  const isBeside = isBuiltIn || packageDirectory(specifier, from) !== undefined
  // A person installs a package into the working directory, not beside this program.
  const place = isBeside ? from : process.cwd()
  return findHandlerPackage(specifier, place, readName).catch((error: unknown) => {
    if (path.isAbsolute(specifier) || isBuiltIn) throw error
    const names = Object.keys(BUILT_IN_HANDLERS)
    const similar = nearest(handler, names) ?? names.find((name) => name.startsWith(handler))
    if (similar === undefined) throw error
    const message = `there is no handler ${handler}; did you mean ${similar}?`
    throw new InvalidOptionError(message, { cause: error })
  })
}
