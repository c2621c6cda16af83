/** Does all steps in order, also after a failure. @throws if a step failed */
export async function tidyUp(...steps: readonly (() => Promise<unknown>)[]): Promise<void> {
  const failures: unknown[] = []
  for (const step of steps) await step().catch((error: unknown) => failures.push(error))
  if (failures.length > 0) throw new AggregateError(failures, failures.join('\n'))
}
