#!/usr/bin/env node
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { AkriError, messageOf } from '@akrijs/runtime'
import {
  commanderOption,
  directory,
  handlerSpecifier,
  logLevelOption,
  nodeName,
  unsetEmpty,
  words,
} from '@akrijs/runtime/program'
import { Command, CommanderError, Option } from 'commander'
import { type DescribeOptions, describe } from './commands/describe.js'
import { BUILT_IN, type DiscoverCommandOptions, discover } from './commands/discover.js'
import { type GetOptions, get } from './commands/get.js'
import { type RunOptions, run } from './commands/run.js'
import { defaultStateDirectory } from './places.js'

// Handlers are looked for as this program's own packages are.
const packagesFrom = path.dirname(fileURLToPath(import.meta.url))

/** Whoever read our lines is gone, as `head` is once it has what it wants: there is nobody to tell more. */
function endUnread(error: NodeJS.ErrnoException): never {
  if (error.code === 'EPIPE') process.exit(0)
  process.stderr.write(`akri: standard output cannot be written: ${messageOf(error)}\n`)
  process.exit(1)
}
process.stdout.on('error', endUnread)
// What nobody reads is no reason to end.
process.stderr.on('error', () => {})

const stateDir = () =>
  commanderOption(
    'stateDir',
    directory({
      argument: '<directory>',
      meaning: 'where the agent keeps its state',
      variable: 'AKRI_STATE_DIRECTORY',
      default: defaultStateDirectory(),
    }),
  )
const builtInHandlers = Object.values(BUILT_IN)
const collect = (value: string, all: string[]) => [...all, value]

const program = new Command('akri')
  .description(
    'Finds the devices around this machine, makes each one an Instance, and shares it out to brokers.',
  )
  .version('0.1.0')
  .showHelpAfterError('(akri --help says more)')
  .exitOverride()

program
  .command('run')
  .description('run the agent of this machine')
  .addOption(
    new Option(
      '-f, --file <path>',
      'Configurations: a file or a directory; may be given several times',
    )
      .argParser(collect)
      .default([], 'none'),
  )
  .addOption(
    new Option(
      '--handler <package>',
      'a handler to load: npm package or path; may be given several times, or with commas',
    )
      .argParser((text: string, all: string[]) => [
        ...(all === builtInHandlers ? [] : all),
        ...words(text).map(handlerSpecifier),
      ])
      .default(builtInHandlers, builtInHandlers.join(', ')),
  )
  .option('--isolated', 'run each handler in a process of its own', false)
  .addOption(
    new Option('--node <name>', 'the name of this node; without it the host name')
      .env('AGENT_NODE_NAME')
      .argParser(nodeName),
  )
  .addOption(stateDir())
  .addOption(commanderOption('logLevel', logLevelOption()))
  .option('--plain', 'lines instead of the live view', false)
  .action((options: Omit<RunOptions, 'node'> & { node?: string }) => {
    // It has brokers to end first.
    process.stdout.off('error', endUnread)
    return run({ ...options, node: options.node }, packagesFrom)
  })

program
  .command('discover')
  .description('show what a handler finds')
  .argument('<handler>', `${Object.keys(BUILT_IN).join(', ')}, an npm package or a path`)
  .option('--details <file>', 'discoveryDetails from a file, or from - (standard input)')
  .option('--details-text <yaml>', 'discoveryDetails')
  .addOption(
    new Option(
      '--property <name=value>',
      'a discovery property; NAME=@FILE reads it; may be given several times',
    )
      .argParser(collect)
      .default([], 'none'),
  )
  .option('--watch', 'go on, and show each change', false)
  .addOption(
    new Option(
      '--once',
      'end after the first list (this is what happens without --watch)',
    ).conflicts('watch'),
  )
  .option('--json', 'a line of JSON for each list', false)
  .addOption(commanderOption('logLevel', logLevelOption(undefined, 'warn')))
  .action((handler: string, options: DiscoverCommandOptions) =>
    discover(handler, options, packagesFrom),
  )

program
  .command('get')
  .description('show Configurations or Instances of the agent that runs')
  .argument('<kind>', 'configurations or instances')
  .argument('[name]')
  .addOption(
    new Option('-o, --output <form>', 'form')
      .choices(['table', 'wide', 'json', 'yaml'])
      .default('table'),
  )
  .addOption(stateDir())
  .action((kind: string, name: string | undefined, options: GetOptions) => get(kind, name, options))

program
  .command('describe')
  .description('show all that is known of one Configuration or Instance')
  .argument('<kind>', 'configuration or instance')
  .argument('<name>')
  .addOption(stateDir())
  .action((kind: string, name: string, options: DescribeOptions) => describe(kind, name, options))

try {
  for (const { options } of program.commands) unsetEmpty(options)
  await program.parseAsync()
  // What a handler may have left running must not keep the program.
  process.exit(0)
} catch (error) {
  // Already told; --help and --version come here too, with 0.
  if (error instanceof CommanderError) process.exit(error.exitCode === 0 ? 0 : 2)
  process.stderr.write(`akri: ${messageOf(error)}\n`)
  process.exit(AkriError.is(error) && error.code === 'AKRI_ERR_USAGE' ? 2 : 1)
}
