import { defaultKeymap, history, historyKeymap } from '@codemirror/commands'
import { yaml } from '@codemirror/lang-yaml'
import { HighlightStyle, syntaxHighlighting } from '@codemirror/language'
import { lintGutter, setDiagnostics } from '@codemirror/lint'
import type { Text } from '@codemirror/state'
import { EditorView, highlightActiveLine, keymap, lineNumbers } from '@codemirror/view'
import { tags } from '@lezer/highlight'
import type { UiCheck } from '../../source.js'

type Finding = UiCheck['findings'][number]
type Place = NonNullable<Finding['place']>

export interface YamlEditor {
  show(findings: readonly Finding[]): void
  /** Moves the cursor to a place. */
  goTo(place: Place): void
  close(): void
}

/** The colours of the page; custom properties reach into the shadow tree of the editor. */
const theme = EditorView.theme({
  '&': { backgroundColor: 'var(--surface)', color: 'var(--text)', fontSize: '0.875rem' },
  // The section around it has the outline: lines would cover one here.
  '&.cm-focused': { outline: 'none' },
  '.cm-content': { fontFamily: 'var(--mono)', caretColor: 'var(--text)', minHeight: '24rem' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-gutters': {
    backgroundColor: 'var(--surface)',
    color: 'var(--quiet)',
    borderRight: '1px solid var(--line)',
  },
  '.cm-activeLine': { backgroundColor: 'var(--raised)' },
  '.cm-tooltip': {
    backgroundColor: 'var(--surface)',
    color: 'var(--text)',
    border: '1px solid var(--line)',
  },
})

const colors = HighlightStyle.define([
  { tag: tags.definition(tags.propertyName), color: 'var(--accent)' },
  { tag: tags.comment, color: 'var(--quiet)' },
  { tag: [tags.string, tags.number, tags.bool], color: 'var(--text)' },
  { tag: tags.meta, color: 'var(--warn)' },
])

/**
 * Puts an editor into an element. It stands in a shadow tree: there its styles are style sheets of
 * the script, and in the document they would be style elements, which the page forbids. The key
 * Tab leaves it.
 */
export function openYamlEditor(
  host: HTMLElement,
  text: string,
  onText: (text: string) => void,
): YamlEditor {
  const root = host.shadowRoot ?? host.attachShadow({ mode: 'open' })
  const view = new EditorView({
    parent: root,
    root,
    doc: text,
    extensions: [
      lineNumbers(),
      history(),
      highlightActiveLine(),
      EditorView.lineWrapping,
      keymap.of([...defaultKeymap, ...historyKeymap]),
      yaml(),
      syntaxHighlighting(colors),
      lintGutter(),
      theme,
      EditorView.contentAttributes.of({ 'aria-label': 'Configuration, as YAML' }),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) onText(update.state.doc.toString())
      }),
    ],
  })
  return {
    show: (findings) => {
      const diagnostics = findings.map(({ level, path, place, message }) => ({
        ...rangeOf(view.state.doc, place),
        severity: level === 'problem' ? ('error' as const) : level,
        message: path === '' ? message : `${path}: ${message}`,
      }))
      view.dispatch(setDiagnostics(view.state, diagnostics))
    },
    goTo: (place) => {
      view.dispatch({
        selection: { anchor: rangeOf(view.state.doc, place).from },
        scrollIntoView: true,
      })
      view.focus()
    },
    close: () => view.destroy(),
  }
}

/** The rest of the line at a place; the first line without one. The text can be newer. */
function rangeOf(doc: Text, place: Place | undefined): { from: number; to: number } {
  const line = doc.line(Math.min(place?.line ?? 1, doc.lines))
  return { from: Math.min(line.from + (place?.column ?? 1) - 1, line.to), to: line.to }
}
