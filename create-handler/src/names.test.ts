import { expect, it } from 'vitest'
import { projectNames } from './names.js'

it.each([
  ['my-sensor', 'my-sensor', 'MY_SENSOR'],
  ['@me/my-sensor-2', 'my-sensor-2', 'MY_SENSOR_2'],
  ['@my.scope_1/s', 's', 'S'],
  ['x'.repeat(40), 'x'.repeat(40), 'X'.repeat(40)],
])('%s gives names for npm, Kubernetes and containers', (name, handler, prefix) => {
  expect(projectNames(name)).toEqual({ package: name, handler, prefix })
})

it.each([
  ['', 'use small letters, digits and "-"'],
  ['My-Sensor', 'use small letters, digits and "-"'],
  ['2nd', 'begin with a letter'],
  ['-x', 'begin with a letter'],
  ['x-', 'use small letters'],
  ['my_sensor', 'use small letters'],
  ['my sensor', 'use small letters'],
  ['../x', 'is not the name of a package'],
  ['@a/b/c', 'is not the name of a package'],
  ['@/x', 'is not the name of a package'],
  ['@Me/x', 'is not the name of a package'],
  ['me/x', 'is not the name of a package; use my-sensor or @scope/my-sensor'],
  ['x\u001b[31m', '"x\\u001b[31m" cannot be the name of a handler'],
  ['x'.repeat(41), 'at most 40 characters'],
  [`@${'x'.repeat(240)}/x`, 'at most 214 characters'],
  ['udev', 'is the name of a handler of Akri; use another, such as my-udev'],
  ['@me/onvif', 'is the name of a handler of Akri'],
  ['http', 'is the name of a module of Node.js; use another, such as my-http'],
  ['zod', 'is the name of a package that the handler needs; use another, such as my-zod'],
  ['@akrijs/sdk', 'is the name of a package that the handler needs; use another, such as my-sdk'],
  ['null', 'is not a text in YAML'],
  ['on', 'is not a text in YAML'],
])('%j is refused: %s', (name, message) => {
  expect(projectNames(name)).toContain(message)
})
