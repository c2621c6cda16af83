import { parseArgs } from 'node:util'
import { InvalidOptionError, messageOf, nearest } from '@akrijs/runtime'
import { EXAMPLES, type Example, LANGUAGES, type Language } from './template.js'

export interface Arguments {
  /** Where the project goes. */
  readonly directory: string | undefined
  /** The name of the package. @default the last part of the directory */
  readonly name: string | undefined
  readonly language: Language | undefined
  /** The name of an example of the gallery. @default the handler of the template */
  readonly example: Example | undefined
  /** A directory with tarballs of packages. @default those of a registry */
  readonly packages: string | undefined
  readonly help: boolean
  readonly version: boolean
}

export const HELP = `Usage: npm create @akrijs/handler@latest [directory] -- [options]

Writes a discovery handler for Akri: an npm package with its tests, its image and its manifests.

  --name <name>        name of the package, such as @me/my-sensor (default: of the directory)
  --language <name>    ${LANGUAGES.join(' or ')} (default: asks on a terminal, or javascript)
  --example <name>     start from ${EXAMPLES.slice(0, 4).join(', ')},
                       ${EXAMPLES.slice(4, -1).join(', ')} or ${EXAMPLES.at(-1)}
  --packages <path>    take packages from tarballs there, those of Akri and others
  --version            print the version
  --help               print this text
`

/** @throws InvalidOptionError */
export function readArguments(argv: readonly string[]): Arguments {
  const { values, positionals } = parse(argv)
  if (positionals.length > 1)
    // npm takes options before -- for its own, and passes on their values.
    throw new InvalidOptionError(
      `name one directory, not ${positionals.length}: ${positionals.join(' ')}; options go after ` +
        `--: npm create @akrijs/handler@latest ${positionals[0]} -- --language typescript`,
    )
  for (const [option, value] of Object.entries({ ...values, directory: positionals[0] }))
    if (value === '') throw new InvalidOptionError(`${option} is empty`)
  const language = values.language === undefined ? undefined : readLanguage(values.language)
  if (values.example !== undefined && language === 'typescript')
    throw new InvalidOptionError('the examples are in JavaScript: leave --language out')
  return {
    directory: positionals[0],
    name: values.name,
    language,
    example: values.example === undefined ? undefined : readExample(values.example),
    packages: values.packages,
    help: values.help,
    version: values.version,
  }
}

/** @throws InvalidOptionError */
export function readLanguage(text: string): Language {
  const short: Readonly<Record<string, Language>> = { js: 'javascript', ts: 'typescript' }
  const word = text.trim().toLowerCase()
  const found = LANGUAGES.find((language) => language === (short[word] ?? word))
  if (found !== undefined) return found
  const similar = nearest(word, LANGUAGES)
  throw new InvalidOptionError(
    `${JSON.stringify(text)} is not a language for handlers; ` +
      (similar === undefined ? `use ${LANGUAGES.join(' or ')}` : `did you mean ${similar}?`),
  )
}

/** @throws InvalidOptionError */
function readExample(text: string): Example {
  const found = EXAMPLES.find((example) => example === text)
  if (found !== undefined) return found
  const similar = nearest(text, EXAMPLES)
  throw new InvalidOptionError(
    `there is no example ${JSON.stringify(text)}; ` +
      (similar === undefined ? `use ${EXAMPLES.join(', ')}` : `did you mean ${similar}?`),
  )
}

function parse(argv: readonly string[]) {
  try {
    return parseArgs({
      args: [...argv],
      allowPositionals: true,
      options: {
        name: { type: 'string' },
        language: { type: 'string' },
        example: { type: 'string' },
        packages: { type: 'string' },
        help: { type: 'boolean', short: 'h', default: false },
        version: { type: 'boolean', default: false },
      },
    })
  } catch (error) {
    const language = argv
      .map((each) => /^--(javascript|typescript|js|ts)$/.exec(each)?.[1])
      .find(Boolean)
    if (language !== undefined)
      throw new InvalidOptionError(
        `there is no option --${language}; write --language ${readLanguage(language)}`,
        { cause: error },
      )
    const [reason] = messageOf(error).split('. To specify')
    throw new InvalidOptionError(`${reason}; see --help`, { cause: error })
  }
}
