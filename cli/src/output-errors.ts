import { outputErrorEnd } from '@akrijs/runtime/program'

/** Ends the program if standard output cannot be written. */
export const endOnOutputError = outputErrorEnd('akri')
