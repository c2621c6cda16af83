import { Command } from 'commander'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { agentOptions } from '../../agent/src/program/agent-options.js'
import * as commands from '../../cli/src/command-options.js'
import { controllerOptions } from '../../controller/src/program/controller-options.js'
import { commanderOptions, type OptionSchema } from '../../runtime/src/program/option-schema.js'
import { akriHandlerOptions } from '../../sdk/src/akri-handler-options.js'
import { webhookOptions } from '../../webhook/src/program/webhook-options.js'

const programs: Readonly<Record<string, OptionSchema>> = {
  agentOptions,
  akriHandlerOptions,
  controllerOptions,
  webhookOptions,
  ...commands,
}
/** Their default has no form that a person can write: the table describes it. */
const DESCRIBED = ['handlerEnvironment', 'identity', 'stateDir']

const shown = Object.entries(programs).flatMap(([program, schema]) =>
  Object.entries(schema)
    .filter(([name, spec]) => spec.default !== undefined && !DESCRIBED.includes(name))
    .filter(([, spec]) => spec.argument !== '')
    .map(([name, spec]) => ({
      program,
      name,
      spec,
      text: spec.defaultText ?? String(spec.default),
    })),
)

describe('the default that a table of options shows', () => {
  afterEach(() => vi.unstubAllEnvs())

  const read = (name: string, spec: OptionSchema[string], ...args: readonly string[]) => {
    const command = new Command().exitOverride()
    for (const option of commanderOptions({ [name]: spec })) command.addOption(option)
    return command.parse(args, { from: 'user' }).opts()[name]
  }

  it.each(shown)('$program: $name can be $text', ({ name, spec, text }) => {
    // The rules that hold without a rule.
    const value = name === 'handlerDevices' ? text.split(', ') : spec.default
    const [option] = commanderOptions({ [name]: spec })
    expect(read(name, spec, option?.long ?? '', text)).toEqual(value)
    if (spec.variable === undefined) return
    vi.stubEnv(spec.variable, text)
    expect(read(name, spec)).toEqual(value)
  })
})
