import { expect, it } from 'vitest'
import { shellWord } from './shell-word.js'

it.each([
  ['my-sensor', 'my-sensor'],
  ['../@me/my_sensor.1', '../@me/my_sensor.1'],
  ['sp ace/my-sensor', "'sp ace/my-sensor'"],
  ["it's $HOME", String.raw`'it'\''s $HOME'`],
])('a directory %s is one word of a command line', (directory, word) => {
  expect(shellWord(directory)).toBe(word)
})
