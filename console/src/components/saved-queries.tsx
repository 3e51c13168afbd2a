/** The dialog of saved queries. It saves the editor's text, opens and deletes queries, and saves all as a file. */
import { useState } from 'react'
import { saveFile } from '../lib/save.ts'
import { fileOf, longestName, useSavedQueries } from '../lib/saved-queries.ts'
import { texts } from '../texts.ts'
import { Button } from './button.tsx'
import { Dialog } from './dialog.tsx'
import { Field } from './field.tsx'

const own = texts.sql.saved

type Props = { database: string; text: string; onOpen: (text: string) => void }

function Saved({ database, text, onOpen }: Props) {
  const { queries, save, remove } = useSavedQueries(database)
  const [name, setName] = useState('')
  const [fault, setFault] = useState<string>()
  return (
    <div className="stack">
      <form
        className="stack-small"
        onSubmit={event => {
          event.preventDefault()
          const newName = name.trim()
          if (newName === '') return setFault(own.noName)
          if (text.trim() === '') return setFault(own.noText)
          const isSaved = save({ name: newName, text })
          setFault(isSaved ? undefined : own.notSaved)
          if (isSaved) setName('')
        }}
      >
        <Field label={own.name} hint={own.nameHint} error={fault}>
          {attributes => (
            <input
              {...attributes}
              className="input"
              maxLength={longestName}
              value={name}
              onChange={event => setName(event.target.value)}
            />
          )}
        </Field>
        <div>
          <Button type="submit" variant="primary">
            {own.save}
          </Button>
        </div>
      </form>
      {queries.length === 0 && <p className="quiet">{own.none}</p>}
      <ul className="stack-small">
        {queries.map(query => (
          <li key={query.name} className="row-spread">
            <button type="button" className="link" onClick={() => onOpen(query.text)}>
              {query.name}
            </button>
            <Button small onClick={() => remove(query.name)}>
              {own.delete(query.name)}
            </Button>
          </li>
        ))}
      </ul>
      {queries.length > 0 && (
        <div>
          <Button small onClick={() => saveFile('queries.sql', 'application/sql', fileOf(queries))}>
            {own.download}
          </Button>
        </div>
      )}
    </div>
  )
}

export function SavedQueries({ onOpen, ...rest }: Props) {
  const [isOpen, setIsOpen] = useState(false)
  return (
    <>
      <Button small onClick={() => setIsOpen(true)}>
        {own.button}
      </Button>
      <Dialog open={isOpen} onClose={() => setIsOpen(false)} title={own.title} description={own.what}>
        <Saved
          {...rest}
          onOpen={text => {
            onOpen(text)
            setIsOpen(false)
          }}
        />
        <div className="dialog-end">
          <Button onClick={() => setIsOpen(false)}>{texts.dialog.close}</Button>
        </div>
      </Dialog>
    </>
  )
}
