import * as z from 'zod'

/** `discoveryDetails` of the debug echo handler. */
export const debugEchoDetails = z.strictObject({
  descriptions: z
    .array(z.string().min(1))
    .max(10_000)
    .describe('The handler finds a device for each of these texts.'),
})
