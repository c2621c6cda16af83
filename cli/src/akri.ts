#!/usr/bin/env node
import { type ProgramCommand, programCommand, startCommands } from '@akrijs/runtime/program'
import { BUILT_IN_HANDLERS } from './built-in-handlers.js'
import { describeOptions, discoverOptions, getOptions, runOptions } from './command-options.js'
import { describe } from './commands/describe.js'
import { discover } from './commands/discover.js'
import { get } from './commands/get.js'
import { run } from './commands/run.js'
import { endOnOutputError } from './output-errors.js'
import { peopleLogger } from './view/people-log.js'

process.stdout.on('error', endOnOutputError)
// A closed standard error is no reason to end.
process.stderr.on('error', () => {})

const builtIn = Object.keys(BUILT_IN_HANDLERS).join(', ')
const commands: readonly ProgramCommand[] = [
  programCommand('run', 'run the agent of this machine', { options: runOptions, run }),
  programCommand('discover', 'show the devices that a handler finds', {
    options: discoverOptions,
    arguments: { '<handler>': `${builtIn}, an npm package or a path` },
    run: (options, context) => discover(context.args[0] ?? '', options, context),
  }),
  programCommand('get', 'list Configurations or Instances of the running agent', {
    options: getOptions,
    arguments: {
      '<kind>': 'configurations or instances',
      '[name]': 'the name of an object; without it all',
    },
    run: (options, { args: [kind = '', name], mayBlock }) =>
      mayBlock(() => get(kind, name, options)),
  }),
  programCommand('describe', 'show everything about one Configuration or Instance', {
    options: describeOptions,
    arguments: { '<kind>': 'configuration or instance', '<name>': 'the name of the object' },
    run: (options, { args: [kind = '', name = ''], mayBlock }) =>
      mayBlock(() => describe(kind, name, options)),
  }),
]

await startCommands(
  {
    name: 'akri',
    description:
      'Finds the devices around this machine, makes each one an Instance, and shares it out ' +
      'to brokers.',
    version: '0.1.0',
    log: (level = 'warn') => peopleLogger((line) => process.stderr.write(`${line}\n`), level),
  },
  commands,
)
