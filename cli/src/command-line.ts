import path from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  commanderOption,
  directory,
  handlerSpecifier,
  logLevelOption,
  nodeName,
  words,
} from '@akrijs/runtime/program'
import { Command, Option } from 'commander'
import { BUILT_IN_HANDLERS } from './built-in-handlers.js'
import { type DescribeOptions, describe } from './commands/describe.js'
import { type DiscoverCommandOptions, discover } from './commands/discover.js'
import { type GetOptions, get } from './commands/get.js'
import { type RunOptions, run } from './commands/run.js'
import { defaultStateDirectory } from './places.js'

// Handler packages are resolved as dependencies of this program.
const packagesFrom = path.dirname(fileURLToPath(import.meta.url))

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
const builtInPackages = Object.values(BUILT_IN_HANDLERS)
const collect = (value: string, all: string[]) => [...all, value]

/** The command line of `akri`. */
export const program = new Command('akri')
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
        ...(all === builtInPackages ? [] : all),
        ...words(text).map(handlerSpecifier),
      ])
      .default(builtInPackages, builtInPackages.join(', ')),
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
  .action((options: RunOptions) => run(options, packagesFrom))

program
  .command('discover')
  .description('show what a handler finds')
  .argument('<handler>', `${Object.keys(BUILT_IN_HANDLERS).join(', ')}, an npm package or a path`)
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
