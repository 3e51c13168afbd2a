/** What a page shows in place of its content: that it loads, that it failed, or that there is nothing yet. */
import type { UseQueryResult } from '@tanstack/react-query'
import { type ReactNode, useEffect, useRef, useState } from 'react'
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

/** Whether the object of a page does not exist, or its id is none. */
export const isMissing = (error: Error | null): boolean =>
  error instanceof ApiError && [400, 404].includes(error.status)

type ResultProps<T> = { query: UseQueryResult<T>; what: string; children: (data: T) => ReactNode }

/** The content of a query. Data that is there stays while a refetch fails; the failure is shown above it. */
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

/** A time as distance from now, with the exact one as its title. */
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

/** The heading of a page. It gets the focus when the page opens, so that a screen reader reads it. */
export function PageTitle({ children, title = children }: { children: string; title?: string }) {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    document.title = texts.title(title)
  }, [title])
  return (
    <h1 ref={heading} tabIndex={-1} data-page-title="">
      {children}
    </h1>
  )
}
