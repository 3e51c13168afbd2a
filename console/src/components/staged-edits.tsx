/** Shows the staged changes of rows as SQL, and commits them in one transaction. */
import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { useAccount } from '../api/accounts.ts'
import { ApiError } from '../api/errors.ts'
import { runSql } from '../api/run-sql.ts'
import { type Edit, longestText, type Outcome, outcomeOf, statementOf, transactionOf } from '../lib/edits.ts'
import type { SqlResult } from '../lib/sql.ts'
import type { Staged } from '../lib/staged.ts'
import type { Target } from '../lib/target.ts'
import { texts } from '../texts.ts'
import { Button } from './button.tsx'
import { Code } from './code.tsx'
import { Field } from './field.tsx'
import { notify } from './toasts.tsx'

const own = texts.tables
const timeoutSeconds = 30
const writers = ['application', 'admin'] as const
type Writer = (typeof writers)[number]

/** The statuses of errors after which the result of the commit is unknown: no answer, and a proxy's errors. */
const unknownResults = new Set([0, 502, 504])

/** Returns whether the API refused the statements before it ran them. */
const isRefusal = (error: unknown): boolean => error instanceof ApiError && !unknownResults.has(error.status)

type Answer = { outcome: Outcome; edits: readonly Edit[] }

function Message({ answer: { outcome, edits } }: { answer: Answer }) {
  if (outcome.kind === 'committed') return null
  const number = 'index' in outcome ? outcome.index + 1 : 0
  const where = number >= 1 && number <= edits.length ? own.changeOf(number) : own.commitOf
  return (
    <div className="notice tone-bad wrap" role="alert">
      <strong>
        {outcome.kind === 'conflict' && own.conflict(where)}
        {outcome.kind === 'failed' && own.failed(where, outcome.message)}
        {outcome.kind === 'unknown' && own.unknown}
      </strong>
      {outcome.kind === 'conflict' && <span>{own.conflictWhat}</span>}
      {outcome.kind === 'failed' && outcome.detail !== '' && <span>{outcome.detail}</span>}
    </div>
  )
}

type Props = { target: Target; staged: Staged; onCommit: () => void }

export function StagedEdits({ target, staged, onCommit }: Props) {
  const { edits } = staged
  const account = useAccount()
  const [writer, setWriter] = useState<Writer>('application')
  const text = transactionOf(edits)
  const commit = useMutation<Answer, Error, readonly Edit[]>({
    mutationFn: async sent => {
      const limits = { max_rows: 10, timeout_seconds: timeoutSeconds }
      const request = { text: transactionOf(sent), mode: 'write', role: writer, ...limits } as const
      let results: readonly SqlResult[] = []
      try {
        await runSql(account, target, request, AbortSignal.timeout(120_000), growing => {
          results = growing
        })
      } catch (error) {
        if (isRefusal(error)) throw error
      }
      return { outcome: outcomeOf(results, sent.length), edits: sent }
    },
    onSuccess: ({ outcome }, sent) => {
      if (outcome.kind === 'committed') {
        for (const edit of sent) staged.remove(edit.id)
        notify(own.committed(sent.length))
      }
      // Runs after every outcome: after a conflict the page must read the rows again, because they are outdated.
      onCommit()
    },
  })
  const isTooLong = text.length > longestText
  // The page shows the result of a commit until the user stages or removes a change.
  const answer = commit.data?.edits === edits ? commit.data : undefined
  const failed = answer !== undefined && 'index' in answer.outcome ? answer.outcome.index : -1
  if (edits.length === 0) return null
  return (
    <section className="stack" aria-labelledby="staged">
      <h2 id="staged">{own.staged(edits.length)}</h2>
      <ol className="stack-small">
        {edits.map((edit, index) => (
          <li key={edit.id} className={index === failed ? 'stack-small staged-failed' : 'stack-small'}>
            <div className="row-spread">
              <span className="wrap">{own.editOf(index + 1, own.kinds[edit.kind], edit.table.name)}</span>
              <Button small disabled={commit.isPending} onClick={() => staged.remove(edit.id)}>
                {own.removeEdit(index + 1)}
              </Button>
            </div>
            <Code label={own.sqlOf(index + 1)} text={`${statementOf(edit)};`} />
          </li>
        ))}
      </ol>
      <p className="quiet">{own.stagedWhat}</p>
      {isTooLong && <p className="notice tone-warning">{own.tooLong}</p>}
      {commit.error !== null && (
        <p className="notice tone-bad wrap" role="alert">
          {commit.error.message}
        </p>
      )}
      {answer !== undefined && <Message answer={answer} />}
      <div className="sql-options">
        <Field label={texts.sql.role} hint={own.roleHint}>
          {attributes => (
            <select
              {...attributes}
              className="input"
              value={writer}
              onChange={event => setWriter(event.target.value === 'admin' ? 'admin' : 'application')}
            >
              {writers.map(one => (
                <option key={one} value={one}>
                  {texts.connect.roles[one]}
                </option>
              ))}
            </select>
          )}
        </Field>
      </div>
      <div className="row">
        <Button
          variant="primary"
          disabled={isTooLong}
          busy={commit.isPending && own.committing}
          onClick={() => commit.mutate(edits)}
        >
          {own.commit(edits.length)}
        </Button>
        <Button disabled={commit.isPending} onClick={staged.clear}>
          {own.discard}
        </Button>
      </div>
    </section>
  )
}
