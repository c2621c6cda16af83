export interface Figure {
  readonly what: string
  readonly value: number
  readonly unit: string
  readonly budget: number
  readonly peer?: { readonly name: string; readonly value: number }
}
export function printFigures(figures: readonly Figure[]): boolean
export function printRows(rows: readonly (readonly string[])[]): void
export function percentile(values: readonly number[], share: number): number
