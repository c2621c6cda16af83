import {
  choice,
  directory,
  integer,
  kubeconfigOption,
  list,
  logLevelOption,
  nodeName,
  type OptionSpec,
  type OptionsOf,
  text,
  texts,
  toggle,
} from '@akrijs/runtime/program'
import { handlerOption, handlerVariablesOption } from '@akrijs/sdk/handler-options'
import { InvalidArgumentError } from 'commander'
import { BUILT_IN_HANDLERS } from './built-in-handlers.js'
import { defaultStateDirectory } from './state-directory.mjs'
import { COLOR_CHOICES } from './view/colors.js'

// The options of the commands of `akri`. The flags and the docs come from here.

/** The options of every command. */
const outputOptions = {
  logFormat: choice(['text', 'json'], {
    argument: '<form>',
    meaning: 'form of failures and of the log: text or, for programs, lines of JSON',
    variable: 'LOG_FORMAT',
    default: 'text',
  }),
  color: choice(COLOR_CHOICES, {
    argument: '<when>',
    meaning: 'colours; auto: in a terminal, and as NO_COLOR, FORCE_COLOR and TERM=dumb say',
    default: 'auto',
  }),
}

const stateDir = directory({
  argument: '<directory>',
  meaning: 'the directory of the state of the agent',
  variable: 'AKRI_STATE_DIRECTORY',
  default: defaultStateDirectory(),
  defaultText: '/var/lib/akri-standalone for root, else ~/.local/state/akri',
})
const builtInPackages = Object.values(BUILT_IN_HANDLERS)

/** `--no-ui` makes it false. */
const ui: OptionSpec<number | false | undefined> = integer([0, 65_535], {
  argument: '<port>',
  meaning:
    'serve the page with the devices at this port of 127.0.0.1; 0: any free port, as without ' +
    'this option. With --log-format json there is no page without this option',
})

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
  logFormat: choice(['text', 'json'], {
    argument: '<form>',
    meaning: 'text with the live view or, for programs, lines of JSON to standard error',
    variable: 'LOG_FORMAT',
    default: 'text',
  }),
  ui,
  // Commander makes `ui` false of it.
  noUi: { argument: '', meaning: 'serve no page' },
  write: toggle({ meaning: 'the page may write Configurations into the files of -f' }),
  plain: toggle({ meaning: 'print lines instead of the live view' }),
  color: outputOptions.color,
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
  watch: toggle({
    meaning:
      'show each change, until Ctrl-C; start a handler from a path again when its files change',
  }),
  once: toggle({
    meaning: 'end after the first list, also if it is empty: without this, wait 5 s for another',
    conflicts: 'watch',
  }),
  json: toggle({
    meaning: 'print a line of JSON for each list: { devices, leftOut, problems, remarks }',
  }),
  logLevel: logLevelOption(undefined, 'warn'),
  ...outputOptions,
}
export type DiscoverOptions = OptionsOf<typeof discoverOptions>

export const validateOptions = {
  handler: handlerOption('a handler that checks its details, beside the built-in handlers'),
  json: toggle({ meaning: 'print one line of JSON: { problems, warnings, findings, … }' }),
  ...outputOptions,
}
export type ValidateOptions = OptionsOf<typeof validateOptions>

const clusterOptions = {
  kubeconfig: text({
    argument: '<file>',
    meaning: 'show a cluster, that of this kubeconfig. Default: KUBECONFIG, then ~/.kube/config',
  }),
  context: text({ argument: '<name>', meaning: 'show a cluster, that of this context' }),
  namespace: text({
    short: '-n',
    argument: '<name>',
    meaning: 'show this namespace of a cluster. Default: that of the context',
  }),
}

/** Where a command finds its objects: at the agent of this machine, or in a cluster. */
const sourceOptions = {
  ...clusterOptions,
  allNamespaces: toggle({ short: '-A', meaning: 'show all namespaces of a cluster' }),
  stateDir,
  ...outputOptions,
}
export type SourceOptions = OptionsOf<typeof sourceOptions>

export const getOptions = {
  output: choice(['table', 'wide', 'json', 'yaml', 'name'], {
    short: '-o',
    argument: '<form>',
    meaning: 'form of the output',
    default: 'table',
  }),
  watch: toggle({ short: '-w', meaning: 'print each row that changes, until Ctrl-C' }),
  ...sourceOptions,
}
export type GetOptions = OptionsOf<typeof getOptions>

export const describeOptions = sourceOptions
export const slotsOptions = sourceOptions
export const eventsOptions = sourceOptions

/** A host as browsers name it: no scheme, and no port that is the usual one. */
const HOST = /^([a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(:\d{1,5})?$/

export const uiOptions = {
  ...clusterOptions,
  allNamespaces: sourceOptions.allNamespaces,
  port: integer([0, 65_535], {
    argument: '<port>',
    meaning: 'serve the page at this port; 0: any free port',
    default: 0,
  }),
  allowedHost: list({
    argument: '<host>',
    meaning:
      'serve the page without a token, behind a proxy that knows its visitors, to browsers that ' +
      'open it at this host, such as devices.example.com; can be repeated, or a list with commas',
    item: (host) => {
      if (HOST.test(host.toLowerCase())) return host.toLowerCase()
      throw new InvalidArgumentError('write a host as in an address, such as devices.example.com')
    },
  }),
  listen: text({
    argument: '<address>',
    meaning: 'with --allowed-host: the address of this machine for the proxy; all: all addresses',
    default: '127.0.0.1',
  }),
  logLevel: logLevelOption(),
  ...outputOptions,
}
export type UiOptions = OptionsOf<typeof uiOptions>

export const explainOptions = { ...clusterOptions, ...outputOptions }

const { namespace: _namespace, ...wholeCluster } = clusterOptions
export const doctorOptions = {
  ...wholeCluster,
  bundle: text({
    argument: '<file>',
    meaning: 'write what a report of a bug needs into a new file, without secrets',
  }),
  ...outputOptions,
}
export type DoctorOptions = OptionsOf<typeof doctorOptions>

export const migrateOptions = {
  kubeconfig: kubeconfigOption,
  write: toggle({ meaning: 'write the changes of the plan; without it nothing is written' }),
  ignoreRunning: toggle({
    meaning: 'go back although agents or controllers run, which may undo the changes',
  }),
  ...outputOptions,
}
export type MigrateOptions = OptionsOf<typeof migrateOptions>

export const completionOptions = outputOptions
