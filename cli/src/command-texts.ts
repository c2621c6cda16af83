import type { OptionSchema } from '@akrijs/runtime/program'
import { BUILT_IN_HANDLERS } from './built-in-handlers.js'
import {
  completionOptions,
  describeOptions,
  discoverOptions,
  doctorOptions,
  eventsOptions,
  explainOptions,
  getOptions,
  migrateOptions,
  runOptions,
  slotsOptions,
  uiOptions,
  validateOptions,
} from './command-options.js'
import { KINDS } from './objects/kinds.js'

// The commands of `akri`. The help, the completion of shells and the manual page come from here.

export const PROGRAM_TEXT =
  'Finds the devices around this machine, makes each one an Instance, and shares it out to brokers.'

/** The shells whose command lines `akri completion` completes. */
export const SHELLS = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof SHELLS)[number]

export interface CommandText {
  readonly description: string
  readonly options: OptionSchema
  /** The meaning of each argument, in commander's notation: `<file...>`. */
  readonly arguments?: Readonly<Record<string, string>>
  /** The words that the first argument can be. @default the names of files */
  readonly words?: readonly string[]
}

const builtIn = Object.keys(BUILT_IN_HANDLERS)

export const COMMANDS = {
  run: { description: 'run the agent of this machine', options: runOptions, words: [] },
  discover: {
    description: 'show the devices that a handler finds',
    options: discoverOptions,
    arguments: {
      '<handler>': `${builtIn.join(', ')}, an npm package, or the path of a package or module`,
    },
  },
  validate: {
    description: 'check the Configurations in files',
    options: validateOptions,
    arguments: { '<file...>': 'files of YAML or JSON, directories, or - (standard input)' },
  },
  get: {
    description: 'list objects of the running agent, or of a cluster',
    options: getOptions,
    arguments: {
      '<kind>': 'configurations, instances, nodes or handlers',
      '[name]': 'the name of an object; without it all',
    },
    words: KINDS,
  },
  describe: {
    description: 'show everything about one object',
    options: describeOptions,
    arguments: {
      '<kind>': 'configuration, instance, node or handler',
      '<name>': 'the name of the object',
    },
    words: KINDS.map((kind) => kind.slice(0, -1)),
  },
  slots: {
    description: 'show who uses which slot',
    options: slotsOptions,
    arguments: { '[name]': 'an Instance, or a Configuration; without it all' },
    words: [],
  },
  events: {
    description: 'show the Events about Configurations and Instances',
    options: eventsOptions,
    arguments: { '[name]': 'the name of an object; without it all' },
    words: [],
  },
  ui: {
    description: 'serve a page with the devices of a cluster, live',
    options: uiOptions,
    words: [],
  },
  explain: {
    description: 'say why a Configuration of a cluster has no devices, or why a Pod waits',
    options: explainOptions,
    arguments: { '<kind>': 'configuration or pod', '<name>': 'the name of the object' },
    words: ['configuration', 'pod'],
  },
  doctor: {
    description: 'examine akri.js in a cluster, and say what to do about each problem',
    options: doctorOptions,
    words: [],
  },
  migrate: {
    description: 'change a cluster between Akri 0.13 and akri.js',
    options: migrateOptions,
    arguments: { '<direction>': 'check, forward (to akri.js) or back (to Akri 0.13)' },
    words: ['check', 'forward', 'back'],
  },
  completion: {
    description: 'print what completes command lines of akri in a shell',
    options: completionOptions,
    arguments: { '<shell>': SHELLS.join(', ') },
    words: SHELLS,
  },
} as const satisfies Readonly<Record<string, CommandText>>
