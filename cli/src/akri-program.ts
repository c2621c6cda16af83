import { InvalidOptionError, systemClock } from '@akrijs/runtime'
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
import { doctor } from './commands/doctor.js'
import { events } from './commands/events.js'
import { explain } from './commands/explain.js'
import { get } from './commands/get.js'
import { migrate } from './commands/migrate.js'
import { run } from './commands/run.js'
import { slots } from './commands/slots.js'
import { ui } from './commands/ui.js'
import { validate } from './commands/validate.js'
import { completionScript } from './completion/completion-script.js'
import { openCluster, openSource } from './objects/open-source.js'
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
    run: (options, context) =>
      context.mayBlock(() =>
        get(context.args[0] ?? '', context.args[1], options, () => openSource(options, context)),
      ),
  }),
  command('describe', {
    ...COMMANDS.describe,
    run: (options, context) =>
      context.mayBlock(() =>
        describe(context.args[0] ?? '', context.args[1] ?? '', () => openSource(options, context)),
      ),
  }),
  command('slots', {
    ...COMMANDS.slots,
    run: (options, context) =>
      context.mayBlock(async () => slots(context.args[0], await openSource(options, context))),
  }),
  command('events', {
    ...COMMANDS.events,
    run: (options, context) =>
      context.mayBlock(async () => events(context.args[0], await openSource(options, context))),
  }),
  command('ui', { ...COMMANDS.ui, run: ui }),
  command('explain', {
    ...COMMANDS.explain,
    run: (options, context) =>
      context.mayBlock(() =>
        explain(context.args[0] ?? '', context.args[1] ?? '', () => openCluster(options, context)),
      ),
  }),
  command('doctor', {
    ...COMMANDS.doctor,
    run: (options, context) =>
      context.mayBlock(async () =>
        doctor(options, await openCluster({ ...options, namespace: undefined }, context), () =>
          systemClock.wallMs(),
        ),
      ),
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
