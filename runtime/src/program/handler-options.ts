import path from 'node:path'
import { Option } from 'commander'
import { isPath } from '../handler/handler-package.js'
import { words } from './program-options.js'

/** Reads the name of a handler's package, or its path, which is taken from the working directory. */
export function handlerSpecifier(text: string): string {
  return isPath(text) ? path.resolve(text) : text
}

/** @param what the program does with a handler's package */
export function handlersOption(what: string): Option {
  return new Option(
    '--handler <package>',
    `${what}: npm package or path; may be given several times, or with commas`,
  )
    .env('AKRI_HANDLERS')
    .argParser((text: string, all: readonly string[]) => [
      ...all,
      ...words(text).map(handlerSpecifier),
    ])
    .default([], 'none')
}
