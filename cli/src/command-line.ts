import { commanderOptions, type OptionSchema } from '@akrijs/runtime/program'
import { Command } from 'commander'
import { BUILT_IN_HANDLERS } from './built-in-handlers.js'
import { describeOptions, discoverOptions, getOptions, runOptions } from './command-options.js'
import { describe } from './commands/describe.js'
import { discover } from './commands/discover.js'
import { get } from './commands/get.js'
import { run } from './commands/run.js'

/** The command line of `akri`. */
export const program = new Command('akri')
  .description(
    'Finds the devices around this machine, makes each one an Instance, and shares it out to brokers.',
  )
  .version('0.1.0')
  .showHelpAfterError('(akri --help says more)')
  .exitOverride()

command('run', 'run the agent of this machine', runOptions).action(run)

command('discover', 'show the devices that a handler finds', discoverOptions)
  .argument('<handler>', `${Object.keys(BUILT_IN_HANDLERS).join(', ')}, an npm package or a path`)
  .action(discover)

command('get', 'list Configurations or Instances of the running agent', getOptions)
  .argument('<kind>', 'configurations or instances')
  .argument('[name]')
  .action(get)

command('describe', 'show everything about one Configuration or Instance', describeOptions)
  .argument('<kind>', 'configuration or instance')
  .argument('<name>')
  .action(describe)

function command(name: string, description: string, schema: OptionSchema): Command {
  const added = program.command(name).description(description)
  for (const option of commanderOptions(schema)) added.addOption(option)
  return added
}
