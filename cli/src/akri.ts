#!/usr/bin/env node
import { AkriError, messageOf, printableLines } from '@akrijs/runtime'
import { unsetEmpty } from '@akrijs/runtime/program'
import { CommanderError } from 'commander'
import { program } from './command-line.js'
import { UsageError } from './errors.js'
import { endOnOutputError } from './output-errors.js'

process.stdout.on('error', endOnOutputError)
// A closed standard error is no reason to end.
process.stderr.on('error', () => {})

try {
  for (const { options } of program.commands) unsetEmpty(options)
  await program.parseAsync()
  // A handler may have left something running that would keep the process.
  process.exit(0)
} catch (error) {
  // Commander has printed its errors; --help and --version come here too, with 0.
  if (error instanceof CommanderError) process.exit(error.exitCode === 0 ? 0 : 2)
  process.stderr.write(`akri: ${printableLines(messageOf(error))}\n`)
  if (!AkriError.is(error) && error instanceof Error)
    process.stderr.write(`${printableLines(error.stack ?? '')}\n`)
  process.exit(UsageError.is(error) ? 2 : 1)
}
