import type { Logger } from '@akrijs/runtime'
import { print } from '@akrijs/runtime/program'
import { COLOR_CHOICES, hasColors, withColoredLevel } from './colors.js'
import { peopleLogger } from './people-log.js'

/** The log of a command for a person: lines on the standard error. */
export function terminalLogger(level: string, isColored: boolean): Logger {
  return peopleLogger(
    (line) => print(process.stderr, `${isColored ? withColoredLevel(line) : line}\n`),
    level,
  )
}

/** Whether the log has colours. @param choice of `--color` */
export function hasColorsOnStderr(choice: string | undefined): boolean {
  const colorChoice = COLOR_CHOICES.find((each) => each === choice) ?? 'auto'
  return hasColors(colorChoice, { isTTY: process.stderr.isTTY, environment: process.env })
}
