import { useState } from 'preact/hooks'

interface CopyTextProps {
  readonly text: string
  /** What is copied, for people who do not see the text. */
  readonly label: string
}

/** How long the answer to a click shows, in milliseconds. */
const ANSWER_MS = 2000

/** A block of text with a button that copies it. */
export function CopyText({ text, label }: CopyTextProps) {
  const [answer, setAnswer] = useState('')
  const copy = async () => {
    const isDone = await navigator.clipboard.writeText(text).then(
      () => true,
      () => false,
    )
    setAnswer(isDone ? 'Copied' : 'Select the text to copy it')
    setTimeout(() => setAnswer(''), ANSWER_MS)
  }
  return (
    <section class="copy" aria-label={label}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls by the keyboard */}
      <pre tabIndex={0}>{text}</pre>
      <button type="button" onClick={copy} aria-label={`Copy ${label}`}>
        <span aria-live="polite">{answer || 'Copy'}</span>
      </button>
    </section>
  )
}
