/** Parts that many pages use: loading, failure and empty states, status badges, relative times and headings. */
import type { UseQueryResult } from '@tanstack/react-query'
import { type ReactNode, useEffect, useState } from 'react'
import { ApiError } from '../api/errors.ts'
import { moment, relative, statusText, toneOf } from '../lib/format.ts'
import { texts } from '../texts.ts'
import { Button } from './button.tsx'

export function Loading({ what }: { what: string }) {
  return (
    <p className="loading" role="status">
      {texts.loading(what)}
    </p>
  )
}

function Failure({ error, retry }: { error: Error; retry?: () => void }) {
  const requestId = error instanceof ApiError ? error.requestId : undefined
  return (
    <div className="notice tone-bad" role="alert">
      <strong>{texts.errors.title}</strong>
      <span className="wrap">{error.message}</span>
      {requestId !== undefined && <span className="mono">{texts.errors.requestId(requestId)}</span>}
      {retry !== undefined && (
        <Button small onClick={retry}>
          {texts.errors.retry}
        </Button>
      )}
    </div>
  )
}

/** Returns whether the object of a page does not exist (404), or its id is invalid (400). */
export const isMissing = (error: Error | null): boolean =>
  error instanceof ApiError && [400, 404].includes(error.status)

type ResultProps<T> = { query: UseQueryResult<T>; what: string; children: (data: T) => ReactNode }

/** Shows the data of a query. If a later read fails, the old data stays, with the error above it. */
export function Result<T>({ query, what, children }: ResultProps<T>) {
  const { data, error } = query
  if (data === undefined) {
    if (error !== null) return <Failure error={error} retry={() => query.refetch()} />
    return <Loading what={what} />
  }
  return (
    <>
      {error !== null && <Failure error={error} retry={() => query.refetch()} />}
      {children(data)}
    </>
  )
}

export function Empty({ title, children, action }: { title: string; children?: ReactNode; action?: ReactNode }) {
  return (
    <div className="empty">
      <h2>{title}</h2>
      {children !== undefined && <p>{children}</p>}
      {action}
    </div>
  )
}

export function Status({ status }: { status: string }) {
  return <span className={`badge tone-${toneOf(status)}`}>{statusText(status)}</span>
}

const tickMs = 10_000

function useNow(): number {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), tickMs)
    return () => clearInterval(timer)
  }, [])
  return now
}

/** A time relative to now. Its tooltip has the exact time. */
export function Ago({ at }: { at: string }) {
  const now = useNow()
  const ms = Date.parse(at)
  if (Number.isNaN(ms)) return <span>{at}</span>
  return (
    <time dateTime={at} title={moment(ms)} className="nowrap">
      {relative(ms, Math.max(now, Date.now()))}
    </time>
  )
}

/** The heading of a page. `Shell` gives it the focus when the page opens, so that a screen reader reads it. */
export function PageTitle({ children, title = children }: { children: string; title?: string }) {
  useEffect(() => {
    document.title = texts.title(title)
  }, [title])
  return (
    <h1 tabIndex={-1} data-page-title="">
      {children}
    </h1>
  )
}
