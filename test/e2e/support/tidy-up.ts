/** Does one step after the other, whatever becomes of those before. @throws where any of them failed */
export async function tidyUp(...steps: readonly (() => Promise<unknown>)[]): Promise<void> {
  const failures: unknown[] = []
  for (const step of steps) await step().catch((error: unknown) => failures.push(error))
  if (failures.length > 0) throw new AggregateError(failures, failures.join('\n'))
}
