/** The lines of a log. It renders only the visible lines. */
import { useVirtualizer } from '@tanstack/react-virtual'
import { useEffect, useRef } from 'react'
import { moment } from '../lib/format.ts'
import { detailsOf, type Line, rankOf } from '../lib/logs.ts'
import { texts } from '../texts.ts'

const own = texts.logs
const tones = { error: 'bad', warning: 'warning', other: 'quiet' } as const

function Entry({ line: { entry } }: { line: Line }) {
  const { timestamp, level, message, user, dbname, remote_host: host, pid, state_code: state } = entry
  const origin = [state, user, dbname, host, pid].filter(one => one !== undefined && one !== '').join(' · ')
  return (
    <>
      <div className="log-head">
        <time dateTime={timestamp}>{moment(Date.parse(timestamp))}</time>
        <span className={`badge tone-${tones[rankOf(level)]}`}>{level}</span>
        <span className="quiet wrap">{origin}</span>
      </div>
      <p className="log-text">{message}</p>
      {detailsOf(entry).map(([key, text]) => (
        <p key={key} className="log-text quiet">
          {own.detail[key]}: {text}
        </p>
      ))}
    </>
  )
}

/** @param isFollowing whether to scroll to each new line, unless the user has scrolled up */
export function LogLines({ lines, isFollowing }: { lines: readonly Line[]; isFollowing: boolean }) {
  const frame = useRef<HTMLElement>(null)
  const isAtEnd = useRef(true)
  const virtual = useVirtualizer({
    count: lines.length,
    getScrollElement: () => frame.current,
    estimateSize: () => 56,
    getItemKey: index => lines[index]?.key ?? index,
    overscan: 8,
  })
  const newest = lines.at(-1)?.key
  useEffect(() => {
    if (newest !== undefined && isFollowing && isAtEnd.current)
      virtual.scrollToIndex(lines.length - 1, { align: 'end' })
  }, [newest, isFollowing, lines.length, virtual])
  const onScroll = () => {
    const { scrollHeight = 0, scrollTop = 0, clientHeight = 0 } = frame.current ?? {}
    isAtEnd.current = scrollHeight - scrollTop - clientHeight < 80
  }
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: keyboard users must be able to scroll it
    <section className="log" ref={frame} tabIndex={0} aria-label={own.lines} onScroll={onScroll}>
      <ul className="log-all" style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map(({ index, key, start }) => {
          const line = lines[index]
          return (
            line !== undefined && (
              <li
                key={key}
                data-index={index}
                ref={virtual.measureElement}
                className="log-line"
                style={{ transform: `translateY(${start}px)` }}
              >
                <Entry line={line} />
              </li>
            )
          )
        })}
      </ul>
    </section>
  )
}
