interface ChoiceProps {
  readonly label: string
  readonly value: string
  readonly choices: readonly (readonly [value: string, text: string])[]
  onChoice(value: string): void
}

export function Choice({ label, value, choices, onChoice }: ChoiceProps) {
  return (
    <label class="field">
      <span class="hidden">{label}</span>
      <select value={value} onChange={(event) => onChoice(event.currentTarget.value)}>
        {choices.map(([each, text]) => (
          <option value={each} key={each}>
            {text}
          </option>
        ))}
      </select>
    </label>
  )
}
