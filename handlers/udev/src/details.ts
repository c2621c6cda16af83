import * as z from 'zod'
import { UdevRuleError } from './errors.js'
import { parseRule, type Rule } from './rule.js'

const PERMISSIONS = ['r', 'w', 'm', 'rw', 'rm', 'rwm', 'wm'] as const

const rule = z
  .string('a rule is a text: put the rule in quotes')
  .transform((text, context): Rule => {
    try {
      return parseRule(text)
    } catch (error) {
      if (!(error instanceof UdevRuleError)) throw error
      context.addIssue({ code: 'custom', message: error.message })
      return z.NEVER
    }
  })

/** `discoveryDetails` of the udev handler. */
export const udevDetails = z.strictObject({
  udevRules: z.array(rule).max(1000).describe('A device matches if any of these rules matches.'),
  groupRecursive: z
    .boolean()
    .default(false)
    .describe('Whether a matching device below another matching device is a part of it.'),
  permissions: z
    .enum(PERMISSIONS)
    .default('rwm')
    .describe('The access of containers to the device nodes.'),
})
