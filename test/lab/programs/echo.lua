-- Apache's /echo: what the server knows about the request, as one JSON object.

local function json_string(value)
  if value == nil then
    return "null"
  end
  local escaped = tostring(value):gsub('[%c"\\]', function(character)
    return string.format("\\u%04x", character:byte())
  end)
  return '"' .. escaped .. '"'
end

local SHOWN = {
  "Authorization", "Connection", "Content-Length", "Cookie", "Forwarded", "Host", "Transfer-Encoding",
  "User-Agent", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Lab-Squid-Port",
  "X-Lab-Squid-User", "X-Test",
}

local function shown_headers(request)
  local fields = {}
  for _, name in ipairs(SHOWN) do
    local value = request.headers_in[name]
    if value then
      fields[#fields + 1] = json_string(name:lower()) .. ":" .. json_string(value)
    end
  end
  return "{" .. table.concat(fields, ",") .. "}"
end

function handle(request)
  local body = request:requestbody() or ""
  request.content_type = "application/json"
  request:puts(
    '{"user":', json_string(request.user or request.headers_in["X-Lab-Squid-User"]),
    ',"remotePort":', request.headers_in["X-Lab-Squid-Port"] or request.headers_in["X-Lab-Remote-Port"],
    ',"method":', json_string(request.method),
    ',"uri":', json_string(request.unparsed_uri),
    ',"bodyLength":', #body,
    ',"bodyMd5":', json_string(request:md5(body)),
    ',"headers":', shown_headers(request), "}\n")
  return apache2.OK
end
