import type { OptionSchema } from '@akrijs/runtime/program'
import { BUILT_IN_HANDLERS } from './built-in-handlers.js'
import {
  completionOptions,
  describeOptions,
  discoverOptions,
  getOptions,
  migrateOptions,
  runOptions,
  validateOptions,
} from './command-options.js'

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
    description: 'list Configurations or Instances of the running agent',
    options: getOptions,
    arguments: {
      '<kind>': 'configurations or instances',
      '[name]': 'the name of an object; without it all',
    },
    words: ['configurations', 'instances'],
  },
  describe: {
    description: 'show everything about one Configuration or Instance',
    options: describeOptions,
    arguments: { '<kind>': 'configuration or instance', '<name>': 'the name of the object' },
    words: ['configuration', 'instance'],
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
