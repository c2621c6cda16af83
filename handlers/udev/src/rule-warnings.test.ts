import { expect, it } from 'vitest'
import { parseRule } from './rule.js'
import { ruleWarnings } from './rule-warnings.js'

const warnings = (rules: readonly string[]) => ruleWarnings(rules.map(parseRule))

it.each([
  [['SUBSYSTEM=="net"', 'KERNEL=="eth0"'], '- SUBSYSTEM=="net", KERNEL=="eth0"'],
  [['SUBSYSTEM!="net"', 'SUBSYSTEM!="block"'], '- SUBSYSTEM!="net", SUBSYSTEM!="block"'],
  [['ATTR{a}==i"1"', 'ATTR{b}=="2"'], '- ATTR{a}==i"1", ATTR{b}=="2"'],
  [['TAG=="a"', 'KERNEL=="b"', 'TAG=="c"', 'TAG=="d"'], '- TAG=="a", KERNEL=="b", TAG=="c", …'],
])('warns of the rules %j, which may be meant as one', (rules, one) => {
  expect(warnings(rules)).toEqual([
    {
      path: 'udevRules',
      message:
        `each of these ${rules.length} rules is a single condition, and a device matches if any ` +
        `of them holds; if all must hold, write one rule on a line of its own: ${one}`,
    },
  ])
})

it.each([
  [[]],
  [['']],
  [['SUBSYSTEM=="net"']],
  [['KERNEL=="ttyUSB*"', 'KERNEL=="ttyACM*"']],
  [['SUBSYSTEM=="net", KERNEL=="eth0"', 'SUBSYSTEM=="tty"']],
])('does not warn of the rules %j', (rules) => {
  expect(warnings(rules)).toEqual([])
})

it('warns of a rule that means something else in Akri, with its number', () => {
  const [warning, ...others] = warnings(['KERNEL=="a"', 'KERNEL=="b", DEVPATH=="/devices/*"'])
  expect(others).toEqual([])
  expect(warning).toMatchObject({
    path: 'udevRules[1]',
    message: expect.stringMatching(/^DEVPATH==/),
  })
})
