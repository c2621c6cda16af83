import {
  choice,
  directory,
  handlerOption,
  handlerVariablesOption,
  logLevelOption,
  nodeName,
  type OptionsOf,
  text,
  texts,
  toggle,
} from '@akrijs/runtime/program'
import { BUILT_IN_HANDLERS } from './built-in-handlers.js'
import { defaultStateDirectory } from './places.js'

// The options of the commands of `akri`. The flags and the docs come from here.

const stateDir = directory({
  argument: '<directory>',
  meaning: 'the directory of the state of the agent',
  variable: 'AKRI_STATE_DIRECTORY',
  default: defaultStateDirectory(),
  defaultText: '/var/lib/akri-standalone for root, else ~/.local/state/akri',
})
const builtInPackages = Object.values(BUILT_IN_HANDLERS)

export const runOptions = {
  file: texts({
    short: '-f',
    argument: '<path>',
    meaning: 'Configurations: a file or a directory; can be repeated',
  }),
  handler: handlerOption('a handler to load', {
    default: builtInPackages,
    defaultText: builtInPackages.join(', '),
  }),
  isolated: toggle({ meaning: 'run each handler in a process of its own' }),
  handlerVariables: handlerVariablesOption(),
  node: {
    ...text({
      argument: '<name>',
      meaning: 'the name of this node; without it the host name',
      variable: 'AGENT_NODE_NAME',
    }),
    parse: nodeName,
  },
  stateDir,
  logLevel: logLevelOption(),
  plain: toggle({ meaning: 'print lines instead of the live view' }),
}
export type RunOptions = OptionsOf<typeof runOptions>

export const discoverOptions = {
  details: text({
    argument: '<file>',
    meaning: 'discoveryDetails from a file, or from - (standard input)',
  }),
  detailsText: text({ argument: '<yaml>', meaning: 'discoveryDetails' }),
  property: texts({
    argument: '<name=value>',
    meaning: 'a discovery property; NAME=@FILE reads it from a file; can be repeated',
  }),
  watch: toggle({ meaning: 'show each change, until Ctrl-C' }),
  once: toggle({ meaning: 'end after the first list, as without --watch', conflicts: 'watch' }),
  json: toggle({ meaning: 'print a line of JSON for each list' }),
  logLevel: logLevelOption(undefined, 'warn'),
}
export type DiscoverOptions = OptionsOf<typeof discoverOptions>

export const getOptions = {
  output: choice(['table', 'wide', 'json', 'yaml'], {
    short: '-o',
    argument: '<form>',
    meaning: 'form of the output',
    default: 'table',
  }),
  stateDir,
}
export type GetOptions = OptionsOf<typeof getOptions>

export const describeOptions = { stateDir }
export type DescribeOptions = OptionsOf<typeof describeOptions>
