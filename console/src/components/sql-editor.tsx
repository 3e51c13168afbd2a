/**
 * The SQL editor: CodeMirror in a shadow root. In a shadow root CodeMirror uses adopted style sheets. In a page it adds
 * style elements, which the content security policy blocks.
 */
import { autocompletion, closeBrackets, completionKeymap } from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands'
import { PostgreSQL, sql } from '@codemirror/lang-sql'
import { bracketMatching, HighlightStyle, syntaxHighlighting, syntaxTree } from '@codemirror/language'
import { Compartment, EditorState, Prec } from '@codemirror/state'
import { drawSelection, EditorView, keymap, lineNumbers } from '@codemirror/view'
import { tags } from '@lezer/highlight'
import { useEffect, useRef } from 'react'
import { texts } from '../texts.ts'

type Schema = Record<string, string[]>

type Props = {
  text: string
  onChange: (text: string) => void
  onRun: (chosen: ChosenText) => void
  schema: Schema
  /** The editor sets `current` to a function that returns the text to run. */
  chosen: { current: (() => ChosenText) | undefined }
}

const theme = EditorView.theme({
  '&': { backgroundColor: 'var(--surface)', color: 'var(--text)', fontSize: '13px', height: '100%' },
  '&.cm-focused': { outline: '2px solid var(--focus)', outlineOffset: '-2px' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.6' },
  '.cm-content': { caretColor: 'var(--text)', padding: '10px 0' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-gutters': { backgroundColor: 'var(--surface)', color: 'var(--text-quiet)', border: 'none' },
  '.cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground': {
    backgroundColor: 'var(--busy-soft)',
  },
  '.cm-tooltip': { backgroundColor: 'var(--raised)', border: '1px solid var(--line)', borderRadius: '6px' },
  '.cm-tooltip-autocomplete ul li[aria-selected]': { backgroundColor: 'var(--accent-soft)', color: 'var(--text)' },
})

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: 'var(--busy)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--good)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--warning)' },
  { tag: tags.comment, color: 'var(--text-quiet)', fontStyle: 'italic' },
  { tag: tags.typeName, color: 'var(--bad)' },
])

/**
 * Replaces a selection when the user types over it. Chromium keeps the format of the replaced text in a `style`
 * attribute, which the content security policy blocks. The browser still handles the text of an input method.
 */
const typeOver = EditorView.domEventHandlers({
  beforeinput: ({ inputType, data, isComposing }, view) => {
    const { state } = view
    const { from, to, empty } = state.selection.main
    if (inputType !== 'insertText' || data === null || isComposing || empty) return false
    const insert = () => state.update(state.replaceSelection(data), { userEvent: 'input.type', scrollIntoView: true })
    // An extension can handle the text, for example to put brackets around the selection.
    const isHandled = state.facet(EditorView.inputHandler).some(handle => handle(view, from, to, data, insert))
    if (!isHandled) view.dispatch(insert())
    return true
  },
})

/** The text to run, and the number of characters before it in the editor. */
export type ChosenText = { text: string; charactersBefore: number }

const chosenBetween = (state: EditorState, from: number, to: number): ChosenText => ({
  text: state.sliceDoc(from, to),
  // Postgres counts characters, and the editor counts UTF-16 code units.
  charactersBefore: [...state.sliceDoc(0, from)].length,
})

/** Returns the selection, else the last statement that begins at or before the cursor, else the whole text. */
function chosenIn(state: EditorState): ChosenText {
  const { from, to, head } = state.selection.main
  if (from !== to) return chosenBetween(state, from, to)
  let found: { from: number; to: number } | undefined
  for (let node = syntaxTree(state).topNode.firstChild; node !== null; node = node.nextSibling)
    if (node.name === 'Statement' && node.from <= head) found = { from: node.from, to: node.to }
  const range = found ?? { from: 0, to: state.doc.length }
  return chosenBetween(state, range.from, range.to)
}

export default function SqlEditor({ text, onChange, onRun, schema, chosen }: Props) {
  const host = useRef<HTMLDivElement>(null)
  const view = useRef<EditorView>(undefined)
  const language = useRef(new Compartment())
  const handlers = useRef({ onChange, onRun })
  handlers.current = { onChange, onRun }
  // biome-ignore lint/correctness/useExhaustiveDependencies: the editor owns its text after its creation
  useEffect(() => {
    const element = host.current
    if (element === null) return
    const shadow = element.shadowRoot ?? element.attachShadow({ mode: 'open' })
    const run = (editor: EditorView) => {
      handlers.current.onRun(chosenIn(editor.state))
      return true
    }
    const editor = new EditorView({
      root: shadow,
      parent: shadow,
      state: EditorState.create({
        doc: text,
        extensions: [
          // Tab has no binding here: it moves the focus, so that keyboard users can leave the editor.
          Prec.highest(keymap.of([{ key: 'Mod-Enter', run }])),
          ...[lineNumbers(), history(), drawSelection(), bracketMatching(), closeBrackets(), autocompletion()],
          keymap.of([...completionKeymap, ...historyKeymap, ...defaultKeymap]),
          language.current.of(sql({ dialect: PostgreSQL, schema })),
          ...[typeOver, theme, syntaxHighlighting(colours), EditorView.lineWrapping],
          EditorView.contentAttributes.of({ 'aria-label': texts.sql.editor }),
          EditorView.updateListener.of(update => {
            if (update.docChanged) handlers.current.onChange(update.state.doc.toString())
          }),
        ],
      }),
    })
    view.current = editor
    chosen.current = () => chosenIn(editor.state)
    return () => {
      chosen.current = undefined
      editor.destroy()
    }
  }, [])
  useEffect(() => {
    view.current?.dispatch({ effects: language.current.reconfigure(sql({ dialect: PostgreSQL, schema })) })
  }, [schema])
  return <div className="sql-editor" ref={host} />
}
