import { flagOf, type OptionSpec } from '@akrijs/runtime/program'
import type { CommandText, Shell } from '../command-texts.js'

type Commands = Readonly<Record<string, CommandText>>

interface Flag {
  readonly names: readonly string[]
  readonly meaning: string
  /** What follows the flag: nothing, one of some words, a file, or what only a person knows. */
  readonly value: 'nothing' | readonly string[] | 'file' | 'any'
}

/** Arguments of flags that are paths. */
const PATHS = /^[<[](file|path|directory|package)\b/

/** A script that completes command lines of `akri`. It starts no process. */
export function completionScript(shell: Shell, commands: Commands): string {
  return { bash, zsh, fish }[shell](commands)
}

function flagsOf({ options }: CommandText): Flag[] {
  const flags = Object.entries(options).map(([name, spec]) => ({
    names: flagOf(name, { ...spec, argument: '' }).split(', '),
    meaning: spec.meaning,
    value: valueAfter(spec),
  }))
  return [...flags, { names: ['-h', '--help'], meaning: 'show the help', value: 'nothing' }]
}

function valueAfter({ argument, choices }: OptionSpec<unknown>): Flag['value'] {
  if (argument === '') return 'nothing'
  return choices ?? (PATHS.test(argument) ? 'file' : 'any')
}

function bash(commands: Commands): string {
  const cases = Object.entries(commands).flatMap(([name, command]) => {
    const flags = flagsOf(command)
    const values = flags
      .filter(({ value }) => value !== 'nothing')
      .map(({ names, value }) => {
        const patterns = names.map((flag) => `"${name} ${flag}"`).join(' | ')
        const words =
          value === 'file' ? 'files=1' : `words="${Array.isArray(value) ? value.join(' ') : ''}"`
        return `    ${patterns}) ${words} ;;`
      })
    const { words } = command
    const first = words === undefined ? 'files=1' : `words="${words.join(' ')}"`
    const all = flags.flatMap(({ names }) => names).join(' ')
    return [
      ...values,
      `    "${name} "*) if [[ $word == -* ]]; then words="${all}"; else ${first}; fi ;;`,
    ]
  })
  return `# Completion of akri for bash: source <(akri completion bash)
_akri() {
  local word=\${COMP_WORDS[COMP_CWORD]} command= words= files=
  ((COMP_CWORD > 1)) && command=\${COMP_WORDS[1]}
  case "$command \${COMP_WORDS[COMP_CWORD - 1]}" in
    " "*) words="${Object.keys(commands).join(' ')} --help --version" ;;
${cases.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  if [[ $files ]]; then
    compopt -o filenames
    local IFS=$'\\n'
    COMPREPLY+=($(compgen -f -- "$word"))
  fi
}
complete -F _akri akri
`
}

function zsh(commands: Commands): string {
  const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`
  // A colon and brackets end a text of _arguments.
  const plain = (text: string) => text.replace(/[[\]:\\]/g, '\\$&')
  const action = (value: Flag['value']) => {
    if (value === 'nothing') return ''
    if (value === 'file') return ':file:_files'
    return value === 'any' ? ': : ' : `:word:(${value.join(' ')})`
  }
  const cases = Object.entries(commands).map(([name, command]) => {
    const { words } = command
    const specs = flagsOf(command).flatMap(({ names, meaning, value }) =>
      names.map((flag) => quoted(`*${flag}[${plain(meaning)}]${action(value)}`)),
    )
    const first = words === undefined ? '*:file:_files' : `1:word:(${words.join(' ')})`
    return `    ${name}) _arguments ${[...specs, quoted(first)].join(' ')} ;;`
  })
  const descriptions = Object.entries(commands).map(([name, { description }]) =>
    quoted(`${name}:${description}`),
  )
  return `#compdef akri
# Completion of akri for zsh: write it as _akri into a directory of $fpath
_akri() {
  if ((CURRENT == 2)); then
    local -a commands=(${descriptions.join(' ')})
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  ((CURRENT--))
  case $command in
${cases.join('\n')}
  esac
}
# In a directory of $fpath the file is the function; else source <(akri completion zsh) works.
if [[ $funcstack[1] == _akri ]]; then _akri "$@"; else compdef _akri akri; fi
`
}

function fish(commands: Commands): string {
  const quoted = (text: string) => `'${text.replace(/['\\]/g, '\\$&')}'`
  const lines = Object.entries(commands).flatMap(([name, command]) => {
    const here = `complete -c akri -n '__fish_seen_subcommand_from ${name}'`
    const flags = flagsOf(command).map(({ names, meaning, value }) => {
      const keys = names.map((flag) =>
        flag.startsWith('--') ? `-l ${flag.slice(2)}` : `-s ${flag.slice(1)}`,
      )
      const after = { nothing: '', file: ' -r -F', any: ' -x' } as const
      const argument =
        typeof value === 'string' ? after[value] : ` -x -a ${quoted(value.join(' '))}`
      return `${here} ${keys.join(' ')}${argument} -d ${quoted(meaning)}`
    })
    const { words } = command
    const first = words === undefined ? ' -F' : ` -a ${quoted(words.join(' '))}`
    return [
      `complete -c akri -n __fish_use_subcommand -a ${name} -d ${quoted(command.description)}`,
      ...flags,
      ...(words?.length === 0 ? [] : [`${here}${first}`]),
    ]
  })
  return `# Completion of akri for fish: akri completion fish | source
complete -c akri -f
${lines.join('\n')}
`
}
