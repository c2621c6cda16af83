import { InvalidArgumentError } from 'commander'

/** Reads the value of an option. @returns a parser that throws InvalidArgumentError for anything but a whole number in this range */
export function wholeNumber(least: number, most: number): (text: string) => number {
  return (text) => {
    const value = Number(text)
    if (/^\d+$/.test(text) && value >= least && value <= most) return value
    throw new InvalidArgumentError(`write a whole number from ${least} to ${most}`)
  }
}
