import path from 'node:path'
import { InvalidArgumentError, Option } from 'commander'

/**
 * One option of a program. The key of the option in the schema gives its flag (`slotGrace`:
 * `--slot-grace`); the docs and the chart take the rest from here.
 */
export interface OptionSpec<Value> {
  /** The argument of the flag, such as `<seconds>`; empty for a switch. */
  readonly argument: string
  /** A short form of the flag, such as `-f`. */
  readonly short?: string
  readonly meaning: string
  /** The environment variable that sets the option; the flag wins. */
  readonly variable?: string
  /** @throws InvalidArgumentError with the values that would be right */
  readonly parse?: (text: string, previous: unknown) => Value
  readonly choices?: readonly string[]
  /** The least and the most value of a whole number. */
  readonly range?: readonly [number, number]
  readonly default?: Value
  /** The default for people, if its value says nothing to them or depends on the machine. */
  readonly defaultText?: string
  readonly isRequired?: boolean
  /** The option that cannot be combined with this one. */
  readonly conflicts?: string
  /** The value of the flag without an argument. */
  readonly preset?: string
  /**
   * The value of the chart, such as `agent.logLevel`. `env`: the variable in the `env` of the
   * component.
   */
  readonly chart?: string | undefined
}

export type OptionSchema = Readonly<Record<string, OptionSpec<unknown>>>

/** The values that a schema gives. */
export type OptionsOf<Schema> = {
  readonly [Name in keyof Schema]: Schema[Name] extends OptionSpec<infer Value> ? Value : never
}

type Spec<Value> = Omit<OptionSpec<Value>, 'choices' | 'range' | 'isRequired' | 'parse'>
type WithDefault<Value> = Spec<Value> & { readonly default: Value }
type WithoutDefault = Omit<Spec<unknown>, 'default'>

/** A whole number from `range[0]` to `range[1]`. */
export function integer(
  range: readonly [number, number],
  spec: WithDefault<number>,
): OptionSpec<number>
export function integer(
  range: readonly [number, number],
  spec: WithoutDefault,
): OptionSpec<number | undefined>
export function integer(
  range: readonly [number, number],
  spec: Spec<number> | WithoutDefault,
): OptionSpec<number> | OptionSpec<number | undefined> {
  const parse = (text: string) => {
    const value = Number(text)
    if (/^\d+$/.test(text) && value >= range[0] && value <= range[1]) return value
    throw new InvalidArgumentError(`write a whole number from ${range[0]} to ${range[1]}`)
  }
  return { ...spec, range, parse }
}

export function text(spec: WithDefault<string>): OptionSpec<string>
export function text(spec: WithoutDefault): OptionSpec<string | undefined>
export function text(
  spec: Spec<string> | WithoutDefault,
): OptionSpec<string> | OptionSpec<string | undefined> {
  return spec
}

export function choice<const Value extends string>(
  choices: readonly Value[],
  spec: Omit<Spec<Value>, 'default'> & { readonly default: NoInfer<Value> },
): OptionSpec<Value> {
  return { ...spec, choices }
}

/** The path of a directory, relative to the working directory. */
export function directory(spec: WithDefault<string>): OptionSpec<string> {
  const parse = (value: string) => {
    if (value !== '') return path.resolve(value)
    throw new InvalidArgumentError('write the path of a directory')
  }
  return { ...spec, parse }
}

/** A flag without an argument. @default false */
export function toggle(
  spec: Omit<Spec<boolean>, 'argument' | 'default'> & { readonly conflicts?: string },
): OptionSpec<boolean> {
  return { ...spec, argument: '', default: false }
}

/** The tables of options show an empty list so, and a person can write it. */
const NONE = 'none'

/** Texts of a flag that can be repeated. @default none */
export function texts(spec: WithoutDefault): OptionSpec<readonly string[]> {
  const parse = (value: string, previous: unknown) => [
    ...(Array.isArray(previous) ? previous : []),
    ...(value === NONE ? [] : [value]),
  ]
  return { ...spec, default: [], defaultText: NONE, parse }
}

/**
 * A list: the flag can be repeated, and each argument can have several items with commas. `none` is
 * the empty list.
 */
export function list(
  spec: Omit<Spec<readonly string[]>, 'default'> & {
    /** Checks an item. @default every item is right */
    readonly item?: (text: string) => string
    readonly default?: readonly string[]
  },
): OptionSpec<readonly string[]> {
  const { item = (value: string) => value, default: standard = [], ...rest } = spec
  const parse = (value: string, previous: unknown) => [
    ...(Array.isArray(previous) && previous !== standard ? previous : []),
    ...(value.trim() === NONE ? [] : words(value).map(item)),
  ]
  return { defaultText: NONE, ...rest, default: standard, parse }
}

/** A text that a function reads, and that must be there. */
export function required(
  spec: WithoutDefault & { readonly parse: (text: string) => string },
): OptionSpec<string> {
  return { ...spec, isRequired: true }
}

/** Splits a text with commas; empty items are left out. */
function words(value: string): string[] {
  return value
    .split(',')
    .map((word) => word.trim())
    .filter(Boolean)
}

/** `--slot-grace <seconds>` for `slotGrace`. */
export function flagOf(name: string, { short, argument }: OptionSpec<unknown>): string {
  const long = `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
  return `${short === undefined ? '' : `${short}, `}${long} ${argument}`.trimEnd()
}

/** The options as commander takes them. */
export function commanderOptions(schema: OptionSchema): Option[] {
  return Object.entries(schema).map(([name, spec]) => {
    const option = new Option(flagOf(name, spec), spec.meaning)
    if (spec.variable !== undefined) option.env(spec.variable)
    if (spec.choices !== undefined) option.choices(spec.choices)
    if (spec.parse !== undefined) option.argParser(spec.parse)
    if (spec.default !== undefined) option.default(spec.default, spec.defaultText)
    if (spec.preset !== undefined) option.preset(spec.preset)
    if (spec.conflicts !== undefined) option.conflicts(spec.conflicts)
    return option.makeOptionMandatory(spec.isRequired ?? false)
  })
}
