import { InvalidOptionError } from '@akrijs/runtime'
import {
  type OptionSchema,
  type ProgramCommand,
  type ProgramWork,
  programCommand,
  redirectOutput,
  startCommands,
} from '@akrijs/runtime/program'
import { COMMANDS, PROGRAM_TEXT, SHELLS } from './command-texts.js'
import { describe } from './commands/describe.js'
import { discover } from './commands/discover.js'
import { get } from './commands/get.js'
import { migrate } from './commands/migrate.js'
import { run } from './commands/run.js'
import { validate } from './commands/validate.js'
import { completionScript } from './completion/completion-script.js'
import { endOnOutputError } from './output-errors.js'
import { hasColorsOnStderr, terminalLogger } from './view/terminal-log.js'

process.stdout.on('error', endOnOutputError)
// A closed standard error is no reason to end.
process.stderr.on('error', () => {})

const commands: readonly ProgramCommand[] = [
  command('run', { ...COMMANDS.run, run }),
  command('discover', {
    ...COMMANDS.discover,
    run: (options, context) => discover(context.args[0] ?? '', options, context),
  }),
  command('validate', {
    ...COMMANDS.validate,
    run: (options, { args, mayBlock, log }) => {
      redirectOutput(log)
      return mayBlock(() => validate(args, options))
    },
  }),
  command('get', {
    ...COMMANDS.get,
    run: (options, { args: [kind = '', name], mayBlock }) =>
      mayBlock(() => get(kind, name, options)),
  }),
  command('describe', {
    ...COMMANDS.describe,
    run: (options, { args: [kind = '', name = ''], mayBlock }) =>
      mayBlock(() => describe(kind, name, options)),
  }),
  command('migrate', {
    ...COMMANDS.migrate,
    run: (options, context) => migrate(context.args[0] ?? '', options, context),
  }),
  command('completion', {
    ...COMMANDS.completion,
    run: async (_options, { args: [shell] }) => printCompletion(shell),
  }),
]

await startCommands(
  {
    name: 'akri',
    description: PROGRAM_TEXT,
    version: '0.1.0',
    loopWatch: new URL('./loop-watch.js', import.meta.url),
    log: ({ logLevel = 'warn', color }) => terminalLogger(logLevel, hasColorsOnStderr(color)),
  },
  commands,
)

function command<Schema extends OptionSchema>(
  name: keyof typeof COMMANDS,
  work: ProgramWork<Schema>,
): ProgramCommand {
  return programCommand(name, COMMANDS[name].description, work)
}

function printCompletion(name: string | undefined): void {
  const shell = SHELLS.find((known) => known === name)
  if (shell === undefined)
    throw new InvalidOptionError(`there is no completion for ${name}: give ${SHELLS.join(', ')}`)
  process.stdout.write(completionScript(shell, COMMANDS))
}
