// `@akrijs/sdk/handler-options`: the options of programs that load handlers.
import { existsSync } from 'node:fs'
import path from 'node:path'
import { list, type OptionSpec } from '@akrijs/runtime/program'
import { InvalidArgumentError } from 'commander'
import { isModuleName } from './handler-module.js'
import { isPath } from './handler-package.js'

/**
 * Reads the name of a handler's package, or the path of a package or module relative to the working
 * directory.
 */
export function handlerSpecifier(specifier: string): string {
  const isFile = isPath(specifier) || (isModuleName(specifier) && existsSync(specifier))
  return isFile ? path.resolve(specifier) : specifier
}

/** @param purpose what the program does with the package of a handler */
export function handlerOption(
  purpose: string,
  more: Pick<OptionSpec<readonly string[]>, 'variable' | 'chart' | 'default' | 'defaultText'> = {},
): OptionSpec<readonly string[]> {
  return list({
    argument: '<package>',
    meaning:
      `${purpose}: npm package, or the path of a package or module; can be repeated, or a list ` +
      'with commas',
    item: handlerSpecifier,
    ...more,
  })
}

/** A name that the environment of a process can have (POSIX). */
const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/

/** A handler in a process of its own gets few variables: the environment can hold credentials. */
export function handlerVariablesOption(
  more: Pick<OptionSpec<unknown>, 'chart'> = {},
): OptionSpec<readonly string[]> {
  return list({
    argument: '<name>',
    meaning:
      'an environment variable that handlers in processes of their own get too; can be ' +
      'repeated, or a list with commas',
    variable: 'AKRI_HANDLER_VARIABLES',
    item: (name) => {
      if (VARIABLE.test(name)) return name
      throw new InvalidArgumentError(
        'write names of variables: letters, digits and _, beginning with no digit',
      )
    },
    ...more,
  })
}
