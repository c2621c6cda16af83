import { packageDirectory } from '@akrijs/runtime/handler'
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
