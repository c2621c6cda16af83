// The manual page of `akri` in the language of man(7), from the texts of the commands.

/** @returns {string} a line of text, which roff would obey if it began with a dot or a quote */
function line(text) {
  const escaped = text.replaceAll('\\', '\\e').replaceAll('-', '\\-')
  const code = (letter) => letter.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')
  return `\\&${escaped.replace(/[^ -~]/gu, (letter) => `\\[u${code(letter)}]`)}`
}

/**
 * @param {Readonly<Record<string, import('../cli/src/command-texts.js').CommandText>>} commands
 * @param {{ description: string, flagOf: Function }} program
 */
export function manPage(commands, { description, flagOf }) {
  const blocks = Object.entries(commands).map(([name, command]) => [
    `.SS akri ${name} ${line(Object.keys(command.arguments ?? {}).join(' '))}`,
    line(`${command.description}.`),
    ...Object.entries(command.arguments ?? {}).flatMap(([argument, meaning]) => [
      '.TP',
      `.I ${line(argument)}`,
      line(meaning),
    ]),
    ...Object.entries(command.options).flatMap(([key, spec]) =>
      optionLines(flagOf(key, spec), spec),
    ),
  ])
  return `${[
    '.\\" Written by scripts/docs.mjs from the options.',
    '.TH AKRI 1 "" akri.js',
    '.nh',
    '.SH NAME',
    'akri \\- run the agent of Akri on this machine, and see what a handler finds',
    '.SH SYNOPSIS',
    '.B akri',
    '.I command',
    '[options] [arguments]',
    '.SH DESCRIPTION',
    line(description),
    '.SH COMMANDS',
    ...blocks.flat(),
    '.SH EXIT STATUS',
    '0 after a run, 2 for a wrong option, and 1 for any other failure.',
  ].join('\n')}\n`
}

function optionLines(flag, { meaning, choices, variable, default: standard, defaultText }) {
  const shown = defaultText ?? (standard === false ? '' : String(standard ?? ''))
  const text = [
    choices === undefined ? meaning : `${meaning}: ${choices.join(', ')}`,
    ...(variable === undefined ? [] : [`environment: ${variable}`]),
    ...(shown === '' ? [] : [`default: ${shown}`]),
  ]
  return ['.TP', `.B ${line(flag)}`, line(`${text.join('; ')}.`)]
}
